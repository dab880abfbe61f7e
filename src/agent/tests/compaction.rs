//! Conversations that outgrow the model's context.

use super::*;
use crate::agent::Exit;

const WORK: [Act; 4] = [Bash("echo one"), Bash("print 3000"), Bash("print 3000"), Bash("echo four")];

fn acts(then: &[Act]) -> Vec<Act> {
    [&WORK[..], then].concat()
}

#[tokio::test]
async fn an_overflow_shortens_the_conversation_and_the_agent_goes_on() {
    let world = World::new(Access::ReadWrite);
    let seen = world.run(&acts(&[Overflow, Say("I read two files."), Bash("echo five"), Submit])).await;
    assert_eq!(seen.finished.exit, Exit::Submitted);
    // The fifth call overflows, the sixth asks for the summary, the seventh goes on.
    insta::assert_snapshot!(told(&seen.asked[5]).join("\n"), @r#"
    system: system
    user: task
    assistant calls {"command":"echo one"}
    tool: [exit code 0]
    assistant calls {"command":"print 3000"}
    tool: [exit code 0]
    assistant calls {"command":"print 3000"}
    tool: [exit code 0]
    user: [This conversation no longer fits into what you ca
    "#);
    insta::assert_snapshot!(told(&seen.asked[6]).join("\n"), @r#"
    system: system
    user: task
    user: [The conversation was shortened here: it had grown
    assistant calls {"command":"echo four"}
    tool: [exit code 0]
    "#);
    assert!(text(&seen.asked[6].messages[2]).ends_with("I read two files."));
    // Nothing is lost on the disk, and the summary is paid.
    let numbers: Vec<(u32, usize)> = seen.turns.iter().map(|turn| (turn.turn, turn.messages.len())).collect();
    assert_eq!(numbers, [(1, 2), (2, 2), (3, 2), (4, 2), (5, 0), (6, 2), (7, 2)]);
    assert_eq!((seen.finished.account.steps, seen.finished.account.tokens.input), (7, 700));
    assert_eq!(seen.finished.notes, ["its conversation outgrew the model's context and was shortened"]);
}

#[tokio::test]
async fn a_resumed_run_goes_on_from_the_shortened_conversation() {
    let world = World::new(Access::ReadOnly);
    let first = world.run(&acts(&[Overflow, Say("A summary."), Bash("echo five"), Refuse])).await;
    assert!(first.finished.error.is_some());
    let second = world.run(&[Submit]).await;
    assert_eq!(second.asked.len(), 1);
    // The call that was refused, to the letter.
    let (before, after) = (&first.asked.last().unwrap().messages, &second.asked[0].messages);
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(after) {
        assert_eq!(text(before), text(after));
    }
    assert_eq!(second.finished.account.steps, 7);
}

#[tokio::test]
async fn a_run_that_ends_before_the_compaction_is_stored_compacts_when_it_goes_on() {
    let world = World::new(Access::ReadOnly);
    let killed = world.run(&acts(&[Refuse])).await;
    assert_eq!(killed.turns.len(), 4);
    let on = world.run(&[Overflow, Say("A summary."), Submit]).await;
    assert_eq!(on.finished.exit, Exit::Submitted);
    assert_eq!(on.turns.iter().filter(|turn| turn.compaction.is_some()).count(), 1);
    assert!(told(&on.asked[2])[2].starts_with("user: [The conversation was shortened here"));
}

#[tokio::test]
async fn a_second_overflow_at_once_ends_the_agent_and_a_later_one_compacts_again() {
    let at_once = World::new(Access::ReadWrite).run(&acts(&[Overflow, Say("Short."), Overflow])).await;
    assert_eq!(at_once.finished.exit, Exit::Failed);
    assert!(at_once.finished.error.is_none(), "its work is kept, and the run goes on");
    assert_eq!(at_once.asked.len(), 7);
    let note =
        "its conversation does not fit into the model's context; a model with a larger one would go on";
    assert!(at_once.finished.notes.contains(&note.to_owned()), "{:?}", at_once.finished.notes);

    let soon = [Overflow, Say("Short."), Bash("ls"), Bash("ls"), Overflow];
    let soon = World::new(Access::ReadWrite).run(&acts(&soon)).await;
    assert_eq!((soon.finished.exit, soon.asked.len()), (Exit::Failed, 9), "two turns are no progress");

    let more = [
        Overflow,
        Say("First."),
        Bash("ls"),
        Bash("ls"),
        Bash("print 3000"),
        Overflow,
        Say("Second."),
        Submit,
    ];
    let later = World::new(Access::ReadWrite).run(&acts(&more)).await;
    assert_eq!(later.finished.exit, Exit::Submitted);
    let last = &later.asked.last().unwrap().messages;
    assert!(text(&last[2]).ends_with("Second."), "one summary at a time");
    let second =
        later.asked.iter().rfind(|request| text(request.messages.last().unwrap()).contains("summary alone"));
    let contains = second.unwrap().messages.iter().any(|message| text(message).ends_with("First."));
    assert!(contains, "the second summary is made of the first one too");
}

#[tokio::test]
async fn without_a_summary_the_commands_are_listed() {
    for failing in [Overflow, Refuse, Say("  ")] {
        let seen = World::new(Access::ReadWrite).run(&acts(&[Overflow, failing, Submit])).await;
        assert_eq!(seen.finished.exit, Exit::Submitted);
        let summary = text(&seen.asked[6].messages[2]).to_owned();
        assert_eq!(
            summary.lines().collect::<Vec<_>>(),
            [
                "[The conversation was shortened here: it had grown too long.]",
                "No summary could be made. The commands that you had run, and how they ended:",
                "- [exit code 0]: echo one",
                "- [exit code 0]: print 3000",
                "- [exit code 0]: print 3000",
            ]
        );
    }
}

#[tokio::test]
async fn a_task_that_does_not_fit_ends_the_agent_at_once() {
    let seen = World::new(Access::ReadWrite).run(&[Overflow]).await;
    assert_eq!((seen.finished.exit, seen.asked.len(), seen.turns.len()), (Exit::Failed, 1, 0));
}

#[tokio::test]
async fn a_newest_turn_that_is_most_of_the_conversation_is_taken_out_too() {
    let seen = World::new(Access::ReadWrite)
        .run(&[Bash("ls"), Bash("print 9000"), Overflow, Say("S"), Submit])
        .await;
    assert_eq!(seen.finished.exit, Exit::Submitted);
    assert_eq!(seen.asked.last().unwrap().messages.len(), 3, "opening and summary");
}
