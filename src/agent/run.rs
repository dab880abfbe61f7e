//! The loop: ask the model, act, observe, until done.

use std::{sync::Arc, time::Duration};

use minijinja::context;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{Account, AgentName, Tokens},
    method::ports::{
        Access, Budget, ChatModel, ChatReply, ChatRequest, Clock, Event, Finish, Message, ModelError,
        Opening, Progress, RunStore, StoreError, Tool, ToolError, Turn,
    },
};

use super::{
    act::{Acting, answer_rest},
    conversation::{Conversation, warning},
    cut,
    limits::{Exit, Limits, Reached, declined, money_nearly_over, with_last_call, worst_cost},
    paid::{Unpaid, paid, worst_case},
    prompt,
    workbench::Workbench,
};

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
    /// What providers made us change, which limit was reached, each once.
    pub notes: Vec<String>,
    /// Only where `exit` is [`Exit::Failed`]. A conversation that cannot be shortened any more, or that the model
    /// declines to go on with, fails without one: then the run goes on.
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

/// Why what is under way must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Cancelled,
    TimeUp,
}

impl Services {
    /// Ends when the run is cancelled, or at `end` on the clock's monotonic scale.
    pub async fn stop_at(&self, end: Duration) -> Stop {
        let left = end.saturating_sub(self.clock.monotonic());
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Stop::Cancelled,
            () = tokio::time::sleep(left) => Stop::TimeUp,
        }
    }

    /// Ends when the run must.
    pub async fn stop(&self) -> Stop {
        self.stop_at(self.deadline).await
    }
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

/// What comes next.
enum Next {
    Step,
    LastCall(Reached),
    End(Exit),
}

/// What came of asking the model.
pub(super) enum Asked {
    Reply(Box<ChatReply>),
    /// Before the call or during it.
    Reached(Reached),
    Cancelled,
    /// The conversation is too long for the model.
    Overflow,
}

impl Agent {
    /// Runs the agent to its end, from where its stored turns stop. Its workbench stays open, for a harvest.
    pub async fn run(self, services: &Services) -> Finished {
        services.progress.report(Event::AgentStarted { agent: self.name.clone() });
        let mut talk = Conversation::with(self.tools.iter().map(|tool| tool.spec()).collect());
        let (exit, error) = match self.converse(services, &mut talk).await {
            Ok(exit) => (exit, None),
            Err(error) => (Exit::Failed, Some(error)),
        };
        if let Some(reached) = talk.reached {
            let ending = if exit == Exit::Submitted { "; it submitted in its last call" } else { "" };
            talk.note([format!("{} was reached{ending}", reached.name())]);
        }
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
            let told = match self.next(services, talk) {
                Next::Step => None,
                Next::LastCall(reached) => Some(last_call(reached)),
                Next::End(exit) => {
                    self.bench.turn_stored(talk.last).await?;
                    return self.stop(talk, Ok(exit)).await;
                }
            };
            let until = self.end(services, talk).saturating_sub(match told {
                Some(_) => Duration::ZERO,
                None => self.kept_time(),
            });
            let number = talk.last + 1;
            services.progress.report(Event::AgentThinks { agent: self.name.clone(), step: number });
            let started = services.clock.monotonic();
            let request =
                self.request(number, talk.messages().into_iter().chain(told.clone()).collect(), talk);
            let asking = self.ask(services, &request, until, told.is_none());
            // The sandbox rests while the model thinks: the time to look at what the last turn changed.
            let (asked, seen) = tokio::join!(asking, self.bench.turn_stored(talk.last));
            seen?;
            let reply = match asked {
                Ok(Asked::Reply(reply)) => reply,
                Ok(Asked::Reached(reached)) => {
                    talk.had_last_call |= told.is_some();
                    talk.reached.get_or_insert(reached);
                    continue;
                }
                Ok(Asked::Overflow) => match self.compact(services, talk).await {
                    Ok(None) => continue,
                    Ok(Some(exit)) => return self.stop(talk, Ok(exit)).await,
                    Err(error) => return self.stop(talk, Err(error)).await,
                },
                Ok(Asked::Cancelled) => return self.stop(talk, Ok(Exit::Cancelled)).await,
                Err(error) => return self.stop(talk, Err(error)).await,
            };
            let mut turn = Turn::of_reply(number, &reply, self.model.price(), services.clock.now());
            let acting = Acting { until, is_last: told.is_some() };
            let cut = tokio::select! {
                biased;
                () = services.cancel.cancelled() => Some(Ok(Exit::Cancelled)),
                acted = self.act(services, talk, &reply, &mut turn, acting) => acted.err().map(Err),
            };
            if cut.is_some() {
                // The reply is paid, so its turn is stored, and the conversation stays one that can go on.
                answer_rest(&mut turn, &reply, &prompt::render("agent/interrupted.md", context! {}));
            } else if told.is_none() {
                self.warn(services, talk, &mut turn, worst_case(&request));
            }
            turn.messages.splice(0..0, told);
            turn.account.seconds = (services.clock.monotonic() - started).as_secs_f64();
            services.store.append_turn(&self.name, &turn).await?;
            talk.add(turn);
            talk.note(reply.notes.iter().cloned());
            services.progress.report(Event::Spent { total: services.budget.spent() });
            if let Some(cut) = cut {
                return cut;
            }
            if reply.finish == Finish::Declined && reply.calls.is_empty() {
                talk.note([declined(reply.text.as_deref())]);
                self.bench.turn_stored(talk.last).await?;
                return self.stop(talk, Ok(Exit::Failed)).await;
            }
        }
    }

    /// Ends between two turns, so that a resumed run goes on from the last one.
    async fn stop(&self, talk: &Conversation, ended: Result<Exit, AgentError>) -> Result<Exit, AgentError> {
        self.bench.keep(talk.last).await;
        ended
    }

    /// Takes up the stored conversation, cut back to the last turn whose tree is stored too.
    async fn reopen(&self, services: &Services, talk: &mut Conversation) -> Result<(), AgentError> {
        let Some(opening) = services.store.opening(&self.name).await? else {
            let opening = Opening {
                agent: self.name.to_string(),
                model: self.model.name().to_owned(),
                messages: self.opening.clone(),
                tools: talk.specs.clone(),
                volatile: self.volatile.clone(),
            };
            services.store.open_agent(&self.name, &opening).await?;
            talk.open(opening.messages);
            return Ok(());
        };
        talk.open(opening.messages);
        let turns = services.store.turns(&self.name).await?;
        let keep = self.bench.resume(turns.last().map_or(0, |turn| turn.turn)).await?;
        let (kept, dropped): (Vec<Turn>, Vec<Turn>) = turns.into_iter().partition(|turn| turn.turn <= keep);
        // Paid is paid, also for turns that are cut.
        let cut = cut::remember(services, &self.name, &dropped).await?;
        // Also when nothing is cut: a tree may have been stored for a turn that was not.
        services.store.cut_turns(&self.name, keep).await?;
        for turn in kept {
            talk.add(turn);
        }
        talk.account += Account { steps: 0, ..cut };
        services.budget.restore(&self.name, talk.account.usd, talk.account.tokens);
        Ok(())
    }

    fn next(&self, services: &Services, talk: &mut Conversation) -> Next {
        if services.cancel.is_cancelled() {
            return Next::End(Exit::Cancelled);
        }
        if talk.format_errors >= self.limits.format_errors {
            return Next::End(Exit::FormatErrors);
        }
        let Some(reached) = talk.reached.or_else(|| self.limit_reached(services, talk)) else {
            return Next::Step;
        };
        talk.reached = Some(reached);
        let can_still = self.has_last_call(talk)
            && !talk.had_last_call
            && talk.account.steps < self.limits.steps
            && services.clock.monotonic() < self.end(services, talk);
        if can_still { Next::LastCall(reached) } else { Next::End(reached.exit()) }
    }

    /// Whether the agent's work is lost unless it submits, and it has done any.
    fn has_last_call(&self, talk: &Conversation) -> bool {
        self.bench.access() == Access::ReadOnly && talk.last > 0
    }

    /// The part of the time that is kept for a last call.
    fn kept_time(&self) -> Duration {
        match self.bench.access() {
            Access::ReadOnly => self.limits.last_call_time(),
            Access::ReadWrite => Duration::ZERO,
        }
    }

    /// On the clock's monotonic scale: when the agent must have ended.
    pub(super) fn end(&self, services: &Services, talk: &Conversation) -> Duration {
        let used = Duration::try_from_secs_f64(talk.account.seconds).unwrap_or(Duration::MAX);
        let own = services.clock.monotonic().saturating_add(self.limits.time.saturating_sub(used));
        own.min(services.deadline)
    }

    fn limit_reached(&self, services: &Services, talk: &Conversation) -> Option<Reached> {
        // The last call is one of the steps, and takes its time out of the agent's.
        let kept_steps = u32::from(self.has_last_call(talk));
        if talk.account.steps + kept_steps >= self.limits.steps {
            return Some(Reached::Steps);
        }
        let end = self.end(services, talk);
        let over = services.clock.monotonic() >= end.saturating_sub(self.kept_time());
        over.then(|| self.time_over(services, end))
    }

    fn time_over(&self, services: &Services, end: Duration) -> Reached {
        if end == services.deadline { Reached::RunTime } else { Reached::Time }
    }

    pub(super) fn request(&self, turn: u32, messages: Vec<Message>, talk: &Conversation) -> ChatRequest {
        ChatRequest {
            agent: self.name.clone(),
            turn,
            messages,
            tools: talk.specs.clone(),
            temperature: self.temperature,
            max_tokens: Some(self.limits.reply_tokens),
            response_schema: None,
            volatile: self.volatile.clone(),
        }
    }

    /// `more` calls may follow: then enough money for a last one is left.
    pub(super) async fn ask(
        &self,
        services: &Services,
        request: &ChatRequest,
        until: Duration,
        more: bool,
    ) -> Result<Asked, AgentError> {
        if more && self.bench.access() == Access::ReadOnly && request.turn > 1 {
            let both = with_last_call(worst_case(request));
            let left = services.budget.left(&self.name);
            if let Err(over) = left.covers(worst_cost(both, self.model.price()), both.total()) {
                return Ok(Asked::Reached(Reached::Money(over)));
            }
        }
        let reply = tokio::select! {
            biased;
            // A reply that is there is paid, and taken.
            reply = paid(services, &*self.model, request) => reply,
            stop = services.stop_at(until) => return Ok(match stop {
                Stop::Cancelled => Asked::Cancelled,
                Stop::TimeUp => Asked::Reached(self.time_over(services, until + self.kept_time())),
            }),
        };
        Ok(match reply {
            Ok(reply) => Asked::Reply(Box::new(reply)),
            Err(Unpaid::Model(ModelError::ContextOverflow { .. })) => Asked::Overflow,
            Err(Unpaid::Model(error)) => return Err(error.into()),
            Err(Unpaid::OverBudget(over)) => Asked::Reached(Reached::Money(over)),
        })
    }

    /// Tells the agent once that its end is near, after what it is shown anyway. A call cost `worst` at most.
    fn warn(&self, services: &Services, talk: &Conversation, turn: &mut Turn, worst: Tokens) {
        if talk.warned || turn.submission.is_some() {
            return;
        }
        let time_left = self.end(services, talk).saturating_sub(services.clock.monotonic());
        let steps = talk.account.steps + turn.account.steps;
        let left = services.budget.left(&self.name);
        let near =
            self.limits.nearly_over(steps, time_left) || money_nearly_over(&left, worst, self.model.price());
        if near
            && let Some(Message::User { content } | Message::Tool { content, .. }) = turn.messages.last_mut()
        {
            content.push_str("\n\n");
            content.push_str(&warning());
        }
    }
}

/// What an agent is told before its last call.
fn last_call(reached: Reached) -> Message {
    Message::User { content: prompt::render("agent/last_call.md", context! { limit => reached.name() }) }
}
