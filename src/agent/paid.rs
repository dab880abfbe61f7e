//! One model call under the run's ledger.

use crate::{
    domain::{Money, Tokens},
    method::ports::{
        Budget, ChatModel, ChatReply, ChatRequest, Message, ModelError, OverBudget, Reservation,
    },
};

use super::{limits::worst_cost, run::Services};

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
    let reservation = services
        .budget
        .reserve(&request.agent, worst_cost(worst, price), worst.total())
        .map_err(Unpaid::OverBudget)?;
    let mut open = OpenReservation { budget: &*services.budget, reservation: Some(reservation) };
    let reply = model.chat(request).await.map_err(Unpaid::Model)?;
    open.settle(price.map_or(Money::ZERO, |price| reply.cost(price)), reply.tokens);
    Ok(reply)
}

/// Settles with nothing used when the call fails or is cancelled.
struct OpenReservation<'a> {
    budget: &'a dyn Budget,
    reservation: Option<Reservation>,
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
pub(super) fn worst_case(request: &ChatRequest) -> Tokens {
    let bytes: usize = request.messages.iter().map(size).sum();
    let tools: usize =
        request.tools.iter().map(|t| t.description.len() + t.parameters.to_string().len()).sum();
    Tokens {
        input: ((bytes + tools) / 2) as u64,
        cached: 0,
        output: request.max_tokens.unwrap_or(16_384).into(),
    }
}

/// Bytes of a message's text.
pub(super) fn size(message: &Message) -> usize {
    match message {
        Message::System { content } | Message::User { content } | Message::Tool { content, .. } => {
            content.len()
        }
        Message::Assistant { content, tool_calls, .. } => {
            content.as_ref().map_or(0, String::len)
                + tool_calls.iter().map(|c| c.name.len() + c.arguments.len()).sum::<usize>()
        }
    }
}
