//! Limits: none is overshot, the end is announced, and what was found or paid is not lost.

use super::*;
use crate::agent::Exit;

const PRICE: Price = Price { input: 0.0, cached: 0.0, output: 100.0, cache_write: None };

fn last_text(seen: &Seen) -> &str {
    text(seen.asked.last().unwrap().messages.last().unwrap())
}

fn warnings(seen: &Seen) -> Vec<u32> {
    let warned = |turn: &&Turn| turn.messages.iter().any(|m| text(m).contains("about a tenth of your"));
    seen.turns.iter().filter(warned).map(|turn| turn.turn).collect()
}

#[tokio::test]
async fn s_09_who_only_reads_has_one_last_call_within_its_steps() {
    let mut world = World::new(Access::ReadOnly);
    world.limits.steps = 3;
    let seen = world.run(&[Bash("ls"), Bash("ls"), Submit]).await;
    assert_eq!((seen.finished.exit, seen.finished.account.steps), (Exit::Submitted, 3));
    assert!(last_text(&seen).starts_with("[You have reached its limit on steps"), "{}", last_text(&seen));
    assert_eq!(seen.finished.notes, ["its limit on steps was reached; it submitted in its last call"]);
}

#[tokio::test]
async fn s_09_in_a_last_call_nothing_but_a_submission_is_taken() {
    let mut world = World::new(Access::ReadOnly);
    world.limits.steps = 3;
    let seen = world.run(&[Bash("one"), Bash("two"), Bash("three")]).await;
    assert_eq!((seen.finished.exit, seen.finished.account.steps), (Exit::StepLimit, 3));
    assert_eq!(seen.ran, ["one", "two"]);
    assert_eq!(seen.finished.notes, ["its limit on steps was reached"]);
    // Whoever goes on from here finds that it had its last call.
    let again = world.run(&[Submit]).await;
    assert_eq!((again.finished.exit, again.asked.len()), (Exit::StepLimit, 0));
}

#[tokio::test]
async fn s_09_who_writes_uses_all_steps_and_is_warned_once() {
    let mut world = World::new(Access::ReadWrite);
    world.limits.steps = 20;
    let seen = world.run(&[Bash("ls")]).await;
    assert_eq!((seen.finished.exit, seen.ran.len()), (Exit::StepLimit, 20));
    assert_eq!(warnings(&seen), [18]);
    assert_eq!(seen.turns[17].observed, ["bash"], "the warning follows what was asked for");
}

#[tokio::test]
async fn s_09_money_is_kept_for_the_last_call() {
    let mut world = World::new(Access::ReadOnly);
    // A reply costs $0.001, and may cost $0.1.
    world.price = Some(PRICE);
    world.cap.usd = Money::from_usd(0.202);
    let seen = world.run(&[Bash("ls"), Bash("ls"), Bash("ls"), Submit]).await;
    assert_eq!((seen.finished.exit, seen.finished.account.steps), (Exit::Submitted, 4));
    assert!(last_text(&seen).contains("its limit on money"), "{}", last_text(&seen));
    assert!(seen.spent <= world.cap.usd, "{}", seen.spent);
}

#[tokio::test]
async fn s_09_where_no_price_is_known_tokens_end_it_politely_too() {
    let mut world = World::new(Access::ReadOnly);
    world.cap.tokens = 25_000;
    let seen = world.run(&[Bash("print 9000"), Bash("print 9000"), Submit]).await;
    assert_eq!(seen.finished.exit, Exit::Submitted);
    assert!(last_text(&seen).contains("tokens where no price is known"), "{}", last_text(&seen));
    assert!(seen.finished.account.tokens.total() <= 25_000);
}

#[tokio::test]
async fn s_09_a_command_ends_with_its_agents_time_and_leaves_time_for_a_last_call() {
    let mut world = World::new(Access::ReadOnly);
    world.limits.time = Duration::from_secs(150);
    let seen = world.run(&[Bash("wait 90"), Bash("wait 90"), Submit]).await;
    assert_eq!(seen.finished.exit, Exit::Submitted);
    // Of 150 s, 15 are kept.
    assert_eq!(seen.turns[1].account.seconds, 45.0);
    assert!(text(&seen.turns[1].messages[1]).starts_with("[timed out after 45 s]"), "{:?}", seen.turns[1]);
    assert_eq!(seen.finished.notes, ["its limit on time was reached; it submitted in its last call"]);
}

#[tokio::test]
async fn s_09_the_runs_time_binds_an_agent_that_has_time_of_its_own() {
    let mut world = World::new(Access::ReadWrite);
    world.run_seconds = 120;
    let seen = world.run(&[Bash("wait 90")]).await;
    assert_eq!(seen.finished.exit, Exit::TimeLimit);
    assert_eq!(seen.turns.iter().map(|turn| turn.account.seconds).sum::<f64>(), 120.0);
    assert_eq!(seen.finished.notes, ["the run's limit on time was reached"]);
    assert_eq!(warnings(&seen), [1], "30 s are less than a tenth of its 1000");
}

#[tokio::test]
async fn s_09_a_reply_that_was_paid_stays_in_the_account_when_its_turn_is_cut() {
    let mut world = World::new(Access::ReadOnly);
    world.price = Some(PRICE);
    let cut = world.run(&[Bash("ls"), Bash("interrupt")]).await;
    assert_eq!((cut.finished.exit, cut.finished.account.steps), (Exit::Cancelled, 2));
    assert_eq!(cut.spent, Money::from_usd(0.002));
    let on = world.run(&[Submit]).await;
    assert_eq!((on.finished.exit, on.spent), (Exit::Submitted, Money::from_usd(0.003)));
    assert!(last_text(&on).contains("the run was interrupted here"), "{}", last_text(&on));
}

#[tokio::test]
async fn s_09_what_is_cut_from_a_resumed_conversation_counts_in_every_process() {
    let mut world = World::new(Access::ReadWrite);
    world.price = Some(PRICE);
    // Its tree is never stored, so that turn is made anew.
    world.run(&[Bash("interrupt")]).await;
    for process in 2..=3 {
        let seen = world.run(&[Bash("interrupt")]).await;
        let expected = Money::from_usd(0.001 * f64::from(process));
        assert_eq!((seen.spent, seen.finished.account.usd), (expected, expected));
        assert_eq!(seen.turns.len(), 1);
    }
}

#[tokio::test]
async fn a_model_that_declines_is_not_asked_again_and_its_words_are_told() {
    for (access, words, note) in [
        (Access::ReadOnly, "I can't\nhelp.", r#"the model declined to answer: "I can't help.""#),
        (Access::ReadWrite, " ", "the model declined to answer, and gave no reason"),
    ] {
        let world = World::new(access);
        let seen = world.run(&[Bash("ls"), Decline(words), Submit]).await;
        assert_eq!((seen.finished.exit, seen.asked.len()), (Exit::Failed, 2));
        assert!(seen.finished.error.is_none(), "its work is kept, and the run goes on");
        assert_eq!(seen.finished.notes, [note]);
        // The reply is paid, and a run that goes on finds a conversation that can.
        assert_eq!(seen.finished.account.steps, 2);
        let on = world.run(&[Submit]).await;
        assert_eq!((on.finished.exit, on.finished.account.steps), (Exit::Submitted, 3));
    }
}
