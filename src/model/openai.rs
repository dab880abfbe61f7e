//! OpenAI's chat completions, which most providers and local servers speak as well.

mod reply;
mod request;

pub(super) use reply::parse;
pub(super) use request::body;

/// Fields of a reply's message that providers want back, in groups of which the first that is there counts:
/// they name the same thing.
///
/// - `reasoning_details`: OpenRouter ("Preserving reasoning", openrouter.ai/docs), unmodified and in order;
///   `reasoning` is its summary.
/// - `reasoning`: vLLM ("Interleaved thinking", docs.vllm.ai) and Ollama; the name was `reasoning_content`.
/// - `reasoning_content`: DeepSeek ("Thinking mode", api-docs.deepseek.com), see [`ONLY_WITH_CALLS`].
/// - `extra_content`: Gemini ("Thought signatures", ai.google.dev), also within calls.
const IN_A_MESSAGE: &[&[&str]] =
    &[&["reasoning_details", "reasoning", "reasoning_content"], &["extra_content"]];

/// The same within a call.
const IN_A_CALL: &[&[&str]] = &[&["extra_content"]];

/// Fields that go back with tool calls only. DeepSeek refuses a later request of a conversation in which a
/// reply with calls comes without its `reasoning_content`; on replies without calls it ignores the field, and
/// its older models refuse it there.
const ONLY_WITH_CALLS: &[&str] = &["reasoning", "reasoning_content"];
