//! Tokens where the provider's count is missing, or says that it did not read what it was sent.

use serde_json::Value;

use crate::{
    domain::Tokens,
    method::ports::{ChatRequest, Message, ToolCall},
};

/// Conversations below this many words are not looked at: a short one is cut by nobody.
const FEWEST_WORDS: u64 = 500;

/// A quarter of the characters, for replies of providers that count nothing.
pub(super) fn estimated(request: &ChatRequest, text: Option<&str>, calls: &[ToolCall]) -> Tokens {
    let chars = |text: &str| text.chars().count() as u64;
    let of_calls =
        |calls: &[ToolCall]| calls.iter().map(|c| chars(&c.name) + chars(&c.arguments)).sum::<u64>();
    let tools = request
        .tools
        .iter()
        .map(|tool| chars(&tool.name) + chars(&tool.description) + chars(&tool.parameters.to_string()));
    Tokens {
        input: (texts(request).map(chars).sum::<u64>() + tools.sum::<u64>()).div_ceil(4),
        cached: 0,
        output: (text.map_or(0, chars) + of_calls(calls)).div_ceil(4),
    }
}

/// Says so where the provider counted fewer tokens than half of the words it was sent. A tokenizer makes at
/// least one token of a word, so the rest was not read, or not counted since it was cached.
pub(super) fn cut_note(request: &ChatRequest, counted: Tokens) -> Option<String> {
    let has_letter = |word: &&str| word.contains(|c: char| c.is_ascii_alphanumeric());
    let words: u64 =
        texts(request).map(|text| text.split_whitespace().filter(has_letter).count() as u64).sum();
    (words > FEWEST_WORDS && counted.input < words / 2).then(|| {
        "the provider counted fewer tokens than the conversation has words: it leaves out what it has cached, or it cuts the conversation, as Ollama does beyond its context length (raise OLLAMA_CONTEXT_LENGTH or the model's num_ctx)".to_owned()
    })
}

/// A count in a provider's own words; `None` where it is missing or absurd.
pub(super) fn count(value: Option<&Value>) -> Option<u64> {
    const MOST: f64 = 1e9;
    value.and_then(Value::as_f64).filter(|count| (0.0..=MOST).contains(count)).map(|count| count as u64)
}

/// Everything that is sent of the conversation as text.
fn texts(request: &ChatRequest) -> impl Iterator<Item = &str> {
    request.messages.iter().flat_map(|message| {
        let (text, calls) = match message {
            Message::System { content } | Message::User { content } | Message::Tool { content, .. } => {
                (content.as_str(), &[][..])
            }
            Message::Assistant { content, tool_calls, .. } => {
                (content.as_deref().unwrap_or_default(), tool_calls.as_slice())
            }
        };
        let calls = calls.iter().flat_map(|call| [call.name.as_str(), call.arguments.as_str()]);
        std::iter::once(text).chain(calls)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::AgentName;

    fn note(words: usize, input: u64) -> Option<String> {
        let request = ChatRequest {
            agent: AgentName::resolver(),
            turn: 1,
            messages: vec![
                Message::System { content: "You repair code.".into() },
                Message::User { content: "word ".repeat(words - 3) + &"- ".repeat(5_000) },
            ],
            tools: vec![],
            temperature: None,
            max_tokens: None,
            response_schema: None,
            volatile: vec![],
        };
        cut_note(&request, Tokens { input, cached: 0, output: 1 })
    }

    #[test]
    fn a_conversation_that_was_cut_is_told_and_no_other() {
        assert!(note(10_000, 4_096).unwrap().contains("OLLAMA_CONTEXT_LENGTH"));
        assert_eq!(note(10_000, 5_000), None, "less than a token a word is not certain enough");
        assert_eq!(note(8_000, 4_096), None);
        assert_eq!(note(400, 10), None);
    }
}
