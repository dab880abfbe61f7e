//! What the gate's markdown readers share. The dialect is GitHub's, as near as the parser comes.

use pulldown_cmark::{Event, Options, Parser};

pub(crate) fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(
        text,
        Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS
            | Options::ENABLE_GFM,
    )
}

/// Whether the event opens or closes a block, or is one, so that no inline text runs across it.
pub(crate) fn is_block_border(event: &Event<'_>) -> bool {
    use pulldown_cmark::{Tag, TagEnd};
    match event {
        Event::Start(tag) => !matches!(
            tag,
            Tag::Emphasis
                | Tag::Strong
                | Tag::Strikethrough
                | Tag::Superscript
                | Tag::Subscript
                | Tag::Link { .. }
                | Tag::Image { .. }
        ),
        Event::End(tag) => !matches!(
            tag,
            TagEnd::Emphasis
                | TagEnd::Strong
                | TagEnd::Strikethrough
                | TagEnd::Superscript
                | TagEnd::Subscript
                | TagEnd::Link
                | TagEnd::Image
        ),
        Event::Rule | Event::Html(_) => true,
        _ => false,
    }
}
