//! What models without tool calls read: `model` asks for the words, `agent` keeps the prompts.

use minijinja::context;

use crate::{
    agent::prompt,
    model::{self, TextWords},
};

/// The prompts of text mode.
pub const TEXT_WORDS: TextWords = TextWords {
    instructions: |tools| {
        let tools: Vec<_> = tools
            .iter()
            .map(|tool| {
                context! {
                    name => &tool.name,
                    description => &tool.description,
                    only_text => model::only_text(tool),
                    parameters => tool.parameters.to_string(),
                }
            })
            .collect();
        prompt::render("tools/text_mode.md", context! { tools })
    },
    result: |tool, content| prompt::render("tools/text_mode_result.md", context! { tool, content }),
};

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::method::ports::ToolSpec;

    #[test]
    fn the_instructions_show_each_tool_in_the_form_that_it_is_called_in() {
        let tool = |name: &str, description: &str, parameters| ToolSpec {
            name: name.into(),
            description: description.into(),
            parameters,
        };
        let command = json!({ "type": "object", "properties": { "command": { "type": "string" } } });
        let submission = json!({
            "type": "object",
            "properties": { "summary": { "type": "string" }, "gaps": { "type": "array" } },
            "required": ["summary"],
        });
        let tools = [tool("bash", "Runs a command.", command), tool("submit", "Ends your work.", submission)];
        insta::assert_snapshot!((TEXT_WORDS.instructions)(&tools), @r#"
        How to call a tool
        You call a tool by writing one fenced block whose first line names it. Every reply holds exactly one such block, at its end, after a short thought if you like; the next message is its result. For example:

        ```bash
        ls -l
        ```

        - The block begins with a line of three backticks and the tool's name, and ends with a line of three backticks.
        - If the content itself has a line that begins with backticks, begin and end the block with more backticks than that line has.
        - Write no second block, also where a tool's description speaks of several calls in one reply, and no result of your own.

        The tools are:

        `bash`: Runs a command.
        The block holds the text of `command` as it is.

        `submit`: Ends your work.
        The block holds one JSON object (line breaks within its texts written as `\n`) of this schema: {"type":"object","properties":{"summary":{"type":"string"},"gaps":{"type":"array"}},"required":["summary"]}
        "#);
        insta::assert_snapshot!((TEXT_WORDS.result)("bash", "exit code 0\nREADME\n"), @r"
        Result of `bash`:
        exit code 0
        README
        ");
    }
}
