//! Sandboxes that nobody waits for any more while they are on their way up.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use acquire::{
    domain::{AgentName, TreeChanges},
    method::ports::{Access, Sandbox, SandboxError, Sandboxes},
    sandbox::docker::DockerSandboxes,
};

use crate::{
    needs_engine,
    sandbox_conformance::MemoryTree,
    support::{Installation, RunOf, answerer, output, resolver},
};

/// A run whose first filling comes to no end, and its tree.
fn endless(installation: &Installation) -> (RunOf, Arc<MemoryTree>) {
    let tree = Arc::new(MemoryTree::example().endless(1));
    (RunOf { history: tree.history_now(), source: tree.clone(), ..installation.run() }, tree)
}

/// Waits until that filling is under way.
async fn until_filling(tree: &MemoryTree) {
    while tree.endless_left() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until nothing else is there.
async fn until_only(installation: &Installation, objects: &BTreeSet<String>) {
    let gone = async {
        while installation.objects().await != *objects {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("what was given up stays");
}

async fn open(
    sandboxes: &DockerSandboxes,
    access: Access,
    changes: &TreeChanges,
) -> Result<Arc<dyn Sandbox>, SandboxError> {
    sandboxes.open(&AgentName::resolver(), access, changes).await
}

#[tokio::test]
async fn s_09_an_opening_that_is_given_up_leaves_nothing_while_the_run_goes_on() {
    needs_engine!();
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let installation = Installation::new().await;
        let (of, tree) = endless(&installation);
        let sandboxes = installation.start(of).await.unwrap();
        let of_the_run = installation.objects().await;
        let none = TreeChanges::default();
        tokio::select! {
            ended = open(&sandboxes, access, &none) => panic!("it is endless: {:?}", ended.err()),
            () = until_filling(&tree) => {}
        }
        until_only(&installation, &of_the_run).await;
        // And stands in nobody's way.
        let next = match access {
            Access::ReadWrite => resolver(&sandboxes).await,
            Access::ReadOnly => answerer(&sandboxes, 1).await,
        };
        assert_eq!(output(&next, "cat README.md").await, "# Example\n");
        sandboxes.close().await;
        installation.nothing_is_left().await;
    }
}

#[tokio::test]
async fn s_09_an_opening_may_be_given_up_at_any_moment() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let of_the_run = installation.objects().await;
    let none = TreeChanges::default();
    let begun = Instant::now();
    resolver(&sandboxes).await.close().await;
    let whole = begun.elapsed();
    for tenth in 0..10 {
        let opening = open(&sandboxes, Access::ReadWrite, &none);
        if let Ok(opened) = tokio::time::timeout(whole * tenth / 10, opening).await {
            opened.unwrap().close().await;
        }
    }
    // Asked for and not listened to, it most likely stands when the other does.
    let mut unheard = Box::pin(open(&sandboxes, Access::ReadWrite, &none));
    assert!(futures_util::poll!(&mut unheard).is_pending());
    resolver(&sandboxes).await.close().await;
    drop(unheard);
    until_only(&installation, &of_the_run).await;
    sandboxes.close().await;
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn closing_a_run_ends_an_opening_that_would_not_end() {
    needs_engine!();
    let installation = Installation::new().await;
    let (of, tree) = endless(&installation);
    let sandboxes = installation.start(of).await.unwrap();
    let none = TreeChanges::default();
    let close = async {
        until_filling(&tree).await;
        let begun = Instant::now();
        sandboxes.close().await;
        begun.elapsed()
    };
    let (opened, took) = tokio::join!(open(&sandboxes, Access::ReadWrite, &none), close);
    assert!(matches!(opened.err(), Some(SandboxError::Lost(_))));
    assert!(took < Duration::from_secs(8), "{took:?}: given up instead of done");
    installation.nothing_is_left().await;
}
