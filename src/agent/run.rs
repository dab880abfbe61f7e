//! The loop: ask the model, act, observe, until done.

use std::{sync::Arc, time::Duration};

use minijinja::context;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{Account, AgentName, Money, Tokens},
    method::ports::{
        Budget, CallContext, ChatModel, ChatReply, ChatRequest, Clock, Event, Finish, Message, ModelError,
        Opening, OverBudget, Progress, RunStore, StoreError, Tool, ToolCall, ToolError, ToolOutcome,
        ToolSpec, Turn,
    },
};

use super::{prompt, workbench::Workbench};

/// Limits of one agent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Model calls.
    pub steps: u32,
    /// Wall-clock time of all turns together, earlier processes of a resumed run included.
    pub time: Duration,
    /// Replies in a row without one well-formed call.
    pub format_errors: u32,
    /// Tokens that one reply may have.
    pub reply_tokens: u32,
}

/// Why an agent ended. The names are the contract of `run.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Submitted,
    StepLimit,
    CostLimit,
    TimeLimit,
    FormatErrors,
    Cancelled,
    Failed,
}

impl Exit {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::StepLimit => "step_limit",
            Self::CostLimit => "cost_limit",
            Self::TimeLimit => "time_limit",
            Self::FormatErrors => "format_errors",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// Why an agent could not go on: not its own limits, but the world around it.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How an agent ended.
#[derive(Debug)]
pub struct Finished {
    pub exit: Exit,
    /// Set exactly when `exit` is [`Exit::Submitted`].
    pub submission: Option<Value>,
    pub account: Account,
    /// What providers made us change, each once.
    pub notes: Vec<String>,
    /// Set exactly when `exit` is [`Exit::Failed`].
    pub error: Option<AgentError>,
}

/// What every agent of a run shares.
#[derive(Clone)]
pub struct Services {
    pub store: Arc<dyn RunStore>,
    pub budget: Arc<dyn Budget>,
    pub progress: Arc<dyn Progress>,
    pub clock: Arc<dyn Clock>,
    pub cancel: CancellationToken,
    /// On the clock's monotonic scale: when the whole run must end.
    pub deadline: Duration,
}

/// One agent: who it is, what it is told, what it can call.
pub struct Agent {
    pub name: AgentName,
    pub model: Arc<dyn ChatModel>,
    /// System and task message.
    pub opening: Vec<Message>,
    /// See [`ChatRequest::volatile`].
    pub volatile: Vec<String>,
    pub tools: Vec<Arc<dyn Tool>>,
    pub bench: Arc<Workbench>,
    pub limits: Limits,
    pub temperature: Option<f64>,
}

impl Agent {
    /// Runs the agent to its end, from where its stored turns stop. Its workbench stays open, for a harvest.
    pub async fn run(self, services: &Services) -> Finished {
        services.progress.report(Event::AgentStarted { agent: self.name.clone() });
        let specs = self.tools.iter().map(|tool| tool.spec()).collect();
        let mut talk = Conversation { specs, ..Conversation::default() };
        let (exit, error) = match self.converse(services, &mut talk).await {
            Ok(exit) => (exit, None),
            Err(error) => (Exit::Failed, Some(error)),
        };
        services.progress.report(Event::AgentFinished {
            agent: self.name.clone(),
            exit: exit.as_str(),
            account: talk.account,
        });
        Finished { exit, submission: talk.submission, account: talk.account, notes: talk.notes, error }
    }

    async fn converse(&self, services: &Services, talk: &mut Conversation) -> Result<Exit, AgentError> {
        self.reopen(services, talk).await?;
        loop {
            if talk.submission.is_some() {
                return Ok(Exit::Submitted);
            }
            if let Some(exit) = self.limit_reached(services, talk) {
                self.bench.turn_stored(talk.account.steps).await?;
                return self.stop(talk, Ok(exit)).await;
            }
            let step = talk.account.steps + 1;
            services.progress.report(Event::AgentThinks { agent: self.name.clone(), step });
            let started = services.clock.monotonic();
            let asked = async {
                tokio::select! {
                    biased;
                    () = services.cancel.cancelled() => Ok(Err(Exit::Cancelled)),
                    asked = self.ask(services, talk, step) => asked,
                }
            };
            // The sandbox rests while the model thinks: the time to look at what the last turn changed.
            let (asked, seen) = tokio::join!(asked, self.bench.turn_stored(talk.account.steps));
            seen?;
            let reply = match asked {
                Ok(Ok(reply)) => reply,
                Ok(Err(exit)) => return self.stop(talk, Ok(exit)).await,
                Err(error) => return self.stop(talk, Err(error)).await,
            };
            let mut turn = self.begin_turn(&reply, step, services);
            tokio::select! {
                biased;
                () = services.cancel.cancelled() => return Ok(Exit::Cancelled),
                acted = self.act(services, talk, &reply, &mut turn) => acted?,
            }
            turn.account.seconds = (services.clock.monotonic() - started).as_secs_f64();
            services.store.append_turn(&self.name, &turn).await?;
            talk.add(turn, reply.notes);
            services.progress.report(Event::Spent { total: services.budget.spent() });
        }
    }

    /// Ends between two turns, so that a resumed run goes on from the last one.
    async fn stop(&self, talk: &Conversation, ended: Result<Exit, AgentError>) -> Result<Exit, AgentError> {
        self.bench.keep(talk.account.steps).await;
        ended
    }

    /// Takes up the stored conversation, cut back to the last turn whose tree is stored too.
    async fn reopen(&self, services: &Services, talk: &mut Conversation) -> Result<(), AgentError> {
        let stored = services.store.opening(&self.name).await?;
        match &stored {
            Some(opening) => talk.messages.clone_from(&opening.messages),
            None => {
                let opening = Opening {
                    agent: self.name.to_string(),
                    model: self.model.name().to_owned(),
                    messages: self.opening.clone(),
                    tools: talk.specs.clone(),
                    volatile: self.volatile.clone(),
                };
                services.store.open_agent(&self.name, &opening).await?;
                talk.messages = opening.messages;
                return Ok(());
            }
        }
        let turns = services.store.turns(&self.name).await?;
        for turn in &turns {
            // Paid is paid, also for turns that are cut below.
            services.budget.restore(&self.name, turn.account.usd, turn.account.tokens);
        }
        let last = turns.last().map_or(0, |t| t.turn);
        let keep = self.bench.resume(last).await?;
        // Also when nothing is cut: a tree may have been stored for a turn that was not.
        services.store.cut_turns(&self.name, keep).await?;
        for turn in turns.into_iter().filter(|t| t.turn <= keep) {
            talk.add(turn, Vec::new());
        }
        Ok(())
    }

    fn limit_reached(&self, services: &Services, talk: &Conversation) -> Option<Exit> {
        if services.cancel.is_cancelled() {
            Some(Exit::Cancelled)
        } else if talk.format_errors >= self.limits.format_errors {
            Some(Exit::FormatErrors)
        } else if talk.account.steps >= self.limits.steps {
            Some(Exit::StepLimit)
        } else if talk.account.seconds >= self.limits.time.as_secs_f64()
            || services.clock.monotonic() >= services.deadline
        {
            Some(Exit::TimeLimit)
        } else {
            None
        }
    }

    async fn ask(
        &self,
        services: &Services,
        talk: &Conversation,
        step: u32,
    ) -> Result<Result<ChatReply, Exit>, AgentError> {
        let request = ChatRequest {
            agent: self.name.clone(),
            turn: step,
            messages: talk.messages.clone(),
            tools: talk.specs.clone(),
            temperature: self.temperature,
            max_tokens: Some(self.limits.reply_tokens),
            response_schema: None,
            volatile: self.volatile.clone(),
        };
        Ok(match paid(services, &*self.model, &request).await {
            Ok(reply) => Ok(reply),
            Err(Unpaid::Model(error)) => return Err(error.into()),
            Err(Unpaid::OverBudget(_)) => Err(Exit::CostLimit),
        })
    }

    fn begin_turn(&self, reply: &ChatReply, step: u32, services: &Services) -> Turn {
        let usd = self.model.price().map_or(Money::ZERO, |price| reply.cost(price));
        Turn {
            turn: step,
            messages: vec![Message::Assistant {
                content: reply.text.clone(),
                tool_calls: reply.calls.clone(),
                provider: reply.provider.clone(),
            }],
            finish: reply.finish,
            observed: Vec::new(),
            account: Account { steps: 1, seconds: 0.0, usd, tokens: reply.tokens },
            format_error: None,
            submission: None,
            at: services.clock.now(),
        }
    }

    /// Runs what the reply calls, in order, and adds what came of it to the turn.
    async fn act(
        &self,
        services: &Services,
        talk: &Conversation,
        reply: &ChatReply,
        turn: &mut Turn,
    ) -> Result<(), AgentError> {
        let names: Vec<String> = talk.specs.iter().map(|spec| spec.name.clone()).collect();
        if reply.finish == Finish::Length {
            turn.format_error = Some("truncated".into());
            let error =
                prompt::render("agent/truncated.md", context! { max_tokens => self.limits.reply_tokens });
            answer_all(turn, &reply.calls, &error);
            return Ok(());
        }
        if let Some(problem) = &reply.unreadable {
            turn.format_error = Some("malformed_call".into());
            let error = prompt::render("tools/text_mode_unreadable.md", context! { problem });
            answer_all(turn, &reply.calls, &error);
            return Ok(());
        }
        if reply.calls.is_empty() {
            turn.format_error = Some("no_call".into());
            let content = prompt::render("agent/no_call.md", context! { tools => names });
            turn.messages.push(Message::User { content });
            return Ok(());
        }
        for call in &reply.calls {
            let content = match self.call(services, talk, turn, call, &names).await? {
                Called::Observation(text) => {
                    turn.observed.push(call.name.clone());
                    text
                }
                Called::Malformed(text) => text,
                Called::Finished(submission) => {
                    turn.submission = Some(submission);
                    // Every call needs its answer, those after the submission too.
                    answer_rest(turn, reply, "(submitted)");
                    return Ok(());
                }
            };
            turn.messages.push(Message::Tool { tool_call_id: call.id.clone(), content });
        }
        if turn.observed.is_empty() {
            turn.format_error = Some("malformed_call".into());
        }
        Ok(())
    }

    async fn call(
        &self,
        services: &Services,
        talk: &Conversation,
        turn: &Turn,
        call: &ToolCall,
        names: &[String],
    ) -> Result<Called, AgentError> {
        let called = talk.specs.iter().position(|spec| spec.name == call.name);
        let Some(tool) = called.map(|index| &self.tools[index]) else {
            let content = prompt::render(
                "agent/unknown_tool.md",
                context! { tool => call.name.as_str(), tools => names.to_vec() },
            );
            return Ok(Called::Malformed(content));
        };
        let malformed = |problem: String| {
            let text =
                prompt::render("agent/malformed_call.md", context! { tool => call.name.as_str(), problem });
            Ok(Called::Malformed(text))
        };
        let arguments = match serde_json::from_str::<Value>(&call.arguments) {
            Ok(arguments @ Value::Object(_)) => arguments,
            Ok(_) => return malformed("the arguments are not a JSON object".into()),
            Err(_) if call.arguments.trim().is_empty() => return malformed("it has no arguments".into()),
            Err(error) => return malformed(format!("the arguments are not valid JSON ({error})")),
        };
        if let Some(Value::String(command)) = arguments.get("command") {
            services.progress.report(Event::AgentRuns {
                agent: self.name.clone(),
                step: turn.turn,
                command: command.clone(),
            });
        }
        let earlier = |observed: &[String]| observed.iter().filter(|name| **name == call.name).count() as u32;
        let context =
            CallContext { turn: turn.turn, earlier_calls: earlier(&talk.observed) + earlier(&turn.observed) };
        Ok(match tool.call(arguments, context).await? {
            ToolOutcome::Observation(text) => Called::Observation(text),
            ToolOutcome::BadArguments(problem) => return malformed(problem),
            ToolOutcome::Finished(submission) => Called::Finished(submission),
        })
    }
}

enum Called {
    Observation(String),
    Malformed(String),
    Finished(Value),
}

/// What a conversation has come to.
#[derive(Default)]
struct Conversation {
    /// Of the agent's tools, in their order.
    specs: Vec<ToolSpec>,
    messages: Vec<Message>,
    account: Account,
    /// Turns in a row with a format error.
    format_errors: u32,
    submission: Option<Value>,
    /// See [`Turn::observed`], of all turns.
    observed: Vec<String>,
    notes: Vec<String>,
}

impl Conversation {
    fn add(&mut self, turn: Turn, notes: Vec<String>) {
        self.messages.extend(turn.messages);
        self.account += turn.account;
        self.observed.extend(turn.observed);
        self.format_errors = if turn.format_error.is_some() { self.format_errors + 1 } else { 0 };
        self.submission = turn.submission;
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

/// Why a model call gave no reply.
pub(crate) enum Unpaid {
    Model(ModelError),
    OverBudget(OverBudget),
}

/// One model call, reserved before and settled after.
pub(crate) async fn paid(
    services: &Services,
    model: &dyn ChatModel,
    request: &ChatRequest,
) -> Result<ChatReply, Unpaid> {
    let worst = worst_case(request);
    let price = model.price();
    let usd = price.map_or(Money::ZERO, |p| p.worst(worst));
    let reservation =
        services.budget.reserve(&request.agent, usd, worst.total()).map_err(Unpaid::OverBudget)?;
    let mut open = OpenReservation { budget: &*services.budget, reservation: Some(reservation) };
    let reply = model.chat(request).await.map_err(Unpaid::Model)?;
    open.settle(price.map_or(Money::ZERO, |p| reply.cost(p)), reply.tokens);
    Ok(reply)
}

/// Settles with nothing used when the call fails or is cancelled.
struct OpenReservation<'a> {
    budget: &'a dyn Budget,
    reservation: Option<crate::method::ports::Reservation>,
}

impl OpenReservation<'_> {
    fn settle(&mut self, used: Money, tokens: Tokens) {
        if let Some(reservation) = self.reservation.take() {
            self.budget.settle(reservation, used, tokens);
        }
    }
}

impl Drop for OpenReservation<'_> {
    fn drop(&mut self) {
        self.settle(Money::ZERO, Tokens::default());
    }
}

/// An upper bound for code and English: no common tokenizer needs more than a token for two bytes of them.
fn worst_case(request: &ChatRequest) -> Tokens {
    let bytes: usize = request
        .messages
        .iter()
        .map(|message| match message {
            Message::System { content } | Message::User { content } | Message::Tool { content, .. } => {
                content.len()
            }
            Message::Assistant { content, tool_calls, provider } => {
                content.as_ref().map_or(0, String::len)
                    + provider.as_ref().map_or(0, state_len)
                    + tool_calls.iter().map(call_len).sum::<usize>()
            }
        })
        .sum();
    let tools: usize =
        request.tools.iter().map(|t| t.description.len() + t.parameters.to_string().len()).sum();
    Tokens {
        input: ((bytes + tools) / 2) as u64,
        cached: 0,
        output: request.max_tokens.unwrap_or(16_384).into(),
    }
}

fn call_len(call: &ToolCall) -> usize {
    call.name.len() + call.arguments.len() + call.provider.as_ref().map_or(0, state_len)
}

/// Reasoning that goes back to the provider is input as well.
fn state_len(state: &Value) -> usize {
    state.to_string().len()
}

fn answer_all(turn: &mut Turn, calls: &[ToolCall], text: &str) {
    if calls.is_empty() {
        turn.messages.push(Message::User { content: text.to_owned() });
    }
    for call in calls {
        turn.messages.push(Message::Tool { tool_call_id: call.id.clone(), content: text.to_owned() });
    }
}

/// Answers the calls of `reply` that have no answer yet.
fn answer_rest(turn: &mut Turn, reply: &ChatReply, text: &str) {
    let answered = turn.messages.iter().filter(|m| matches!(m, Message::Tool { .. })).count();
    for call in &reply.calls[answered..] {
        turn.messages.push(Message::Tool { tool_call_id: call.id.clone(), content: text.to_owned() });
    }
}
