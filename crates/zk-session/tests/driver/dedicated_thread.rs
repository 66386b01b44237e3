//! Sessions on a dedicated thread, and callers without a runtime. The time is real.

use super::*;

fn config(ensemble: &Ensemble) -> Config {
    ensemble.config("a").dedicated_thread()
}

#[tokio::test]
async fn dedicated_thread_drives_the_session_of_a_blocked_runtime() {
    let ensemble = Ensemble::new();
    let client = config(&ensemble).connector(ensemble.clone()).connect().await.unwrap();
    let thread = client.dedicated_thread().expect("the session has its own thread");
    // The only thread of this runtime is blocked, so only another one can send the request.
    let answer = client.exists("/n");
    std::thread::spawn(move || thread.block_on(answer)).join().unwrap().unwrap();
    assert!(client.weak().dedicated_thread().is_none());
    assert!(ensemble.client().await.dedicated_thread().is_none());
}

/// The driver's runtime runs a task for each caller that waits without a runtime. A caller that
/// stops waiting must not leave the task behind until its time has passed.
#[test]
fn dropped_sleep_of_a_caller_without_runtime_ends_its_task() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    let client = runtime.block_on(async {
        let ensemble = Ensemble::new();
        let client = ensemble.client().await;
        client.exists("/n").await.unwrap();
        client
    });
    let tasks = || runtime.metrics().num_alive_tasks();
    let before = tasks();
    let sleep = client.runtime().sleep(Duration::from_secs(3600));
    assert_eq!(tasks(), before + 1);
    drop(sleep);
    while tasks() > before {
        std::thread::yield_now();
    }
}
