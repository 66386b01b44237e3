//! The `zk` command: locks and plain operations on ZooKeeper from a shell.

mod acl;
mod acquired_lock;
mod args;
mod at_once;
mod barrier;
mod bench;
mod child;
mod connector;
mod counter;
mod data;
mod descendants;
mod digest;
mod discover;
mod doctor;
mod ensemble;
mod export;
mod failure;
mod find;
mod holders;
mod import;
mod limit_args;
mod lock;
mod lock_args;
mod majority;
mod man;
mod nodes;
mod one_time_identity;
mod output;
mod own_entry;
mod participants;
mod progress;
mod register;
mod repeat;
mod security;
mod server;
mod sessions;
mod signals;
mod state_file;
mod subtree;
mod text;
mod time_arg;
mod top;
mod transfer;
mod tree;
mod txn;
mod usage_error;
mod verbose;
mod verbose_log;
mod watch;
mod watch_notes;

use std::future::{Future, ready};
use std::io::{Write as _, stderr};
use std::panic;
use std::pin::Pin;
use std::process::{self, ExitCode};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use serde_json::json;
use tokio::time::Instant;
use zk_recipes::session::{Client, Config, Retry};

use self::args::{Args, Command};
use self::connector::ServerConnector;
use self::doctor::Door;
use self::failure::{Failure, USAGE};
use self::output::{Output, data_json};
use self::sessions::Sessions;
use self::verbose_log::VerboseLog;

fn main() -> ExitCode {
    end_on_panic();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                    // An error of a closed terminal cannot be handled.
                    drop(error.print());
                    ExitCode::SUCCESS
                }
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                    drop(error.print());
                    ExitCode::from(USAGE)
                }
                // For clap, a variable such as ZK_CONNECT is an argument.
                ErrorKind::MissingSubcommand if std::env::args_os().len() <= 1 => {
                    drop(write!(stderr(), "{}", Args::command().render_help()));
                    ExitCode::from(USAGE)
                }
                // Clap does not name the variable.
                kind => {
                    let empty = security::refuse_empty_variables();
                    let failure = match empty {
                        Err(failure) if kind == ErrorKind::InvalidValue => failure,
                        _ => Failure::usage(usage_error::one_line(&error)),
                    };
                    ExitCode::from(Output::new(usage_error::is_json()).report(&failure))
                }
            };
        }
    };
    let output = Output::new(args.json);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::other(format!("no runtime: {error}"));
            return ExitCode::from(output.report(&failure));
        }
    };
    let ended = runtime.block_on(run(args, output));
    signals::end(ended.unwrap_or_else(|failure| output.report(&failure)))
}

/// Makes a panic in any thread or task end the program, and before that the command that runs under a lock.
///
/// With a profile that aborts on a panic no destructor would do that. With one that unwinds, a task that
/// panics would leave the rest of the program running, and the command without its lock.
fn end_on_panic() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        child::kill_running();
        top::restore_terminal();
        print(info);
        process::exit(failure::OTHER.into());
    }));
}

/// Work of a command. On the heap, so that there is not one future, and one function that polls it, with
/// the work of all commands: that makes the program larger.
type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + 'a>>;

async fn run(mut args: Args, output: Output) -> Result<u8, Failure> {
    drop(tokio::spawn(child::reap_orphans()));
    // The server does not need a connect string.
    if let Command::Server(server) = args.command {
        let work: Work<'_, u8> = Box::pin(server::run(server, output));
        return work.await;
    }
    if let Command::Completions { shell } = args.command {
        let script = completions(shell);
        output.print_data(&script, || json!({ "script": data_json(&script) }))?;
        return Ok(0);
    }
    if let Command::Man(man) = args.command {
        return man::run(&man, output).map(|()| 0);
    }
    if let Command::Digest(wanted) = args.command {
        security::refuse_empty_variables()?;
        return digest::run(&wanted, &args.security, output).map(|()| 0);
    }
    subtree::limit_trees(args.limits.tree_limit);
    security::refuse_empty_variables()?;
    let tls = args.security.tls(&args.connect)?;
    let credentials = args.security.credentials()?;
    let config = |connect: &str| {
        let config = Config::new(connect)?.session_timeout(args.session_timeout);
        let len = |bytes: u32| usize::try_from(bytes).unwrap_or(usize::MAX);
        let config = config.max_request_len(len(args.limits.max_request_len));
        let config = config.max_frame_len(len(args.limits.max_frame_len));
        let config = if args.read_only { config.allow_read_only() } else { config };
        let config = if args.create_chroot { config.create_chroot() } else { config };
        args.security.present(config, &credentials)
    };
    if let Command::Doctor = args.command {
        let risk_without_tls = args.security.risk_without_tls(&credentials);
        let session_timeout = args.session_timeout;
        let retry = args.retry;
        let door = Door { config: &config, tls, session_timeout, retry, risk_without_tls };
        let work: Work<'_, u8> = Box::pin(doctor::run(&door, &args.connect, output));
        return work.await;
    }
    let mut config = config(&args.connect)?;
    config = match args.command.client_name() {
        Some(name) => config.name(name),
        // A full pipe blocks this thread, and must not end the session.
        None => config.dedicated_thread(),
    };
    let presented = args.security.presented(&credentials);
    let advice = args.security.advice(&credentials);
    let has_identity = args.security.has_identity(&credentials);
    args.command.check_path()?;
    args.command.prepare()?;
    let sessions = Sessions::new(config, ServerConnector::new(tls)?, &args.connect);
    args.security.notes_about_files().iter().for_each(|note| output.note(note));
    let log = args.verbose.then(|| VerboseLog::new(output));
    let sessions = sessions.retry_for(args.retry).presenting(&presented, has_identity);
    let sessions = sessions.verbose(log.clone());
    let command = args.command;
    let work: Work<'_, u8> = match command {
        Command::Lock(lock) => Box::pin(lock::run(sessions, lock.into(), output)),
        Command::Elect(elect) => Box::pin(lock::run(sessions, elect.into(), output)),
        Command::Semaphore(permits) => Box::pin(lock::run(sessions, permits.try_into()?, output)),
        Command::Multilock(locks) => Box::pin(lock::run(sessions, locks.try_into()?, output)),
        Command::Register(register) => Box::pin(register::run(sessions, register, output)),
        Command::Discover(ref args) if args.watch => {
            Box::pin(discover::follow(sessions, args, output))
        }
        Command::Watch(ref watch) => Box::pin(watch::run(sessions, watch, output)),
        Command::Bench(ref bench) => Box::pin(bench::run(sessions, bench, output)),
        Command::Top(ref top) => Box::pin(top::run(sessions, top, output)),
        ref command => Box::pin(plain(sessions, command, output)),
    };
    let ended = work.await;
    if let Some(log) = log {
        log.flush();
    }
    ended.map_err(|failure| failure.with_presented(&presented, advice))
}

/// Returns the script with which a shell completes commands and options.
fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "zk", &mut script);
    script
}

/// Runs a plain command, and repeats it in another session if its session has ended and nothing was
/// applied.
async fn plain(mut sessions: Sessions, command: &Command, output: Output) -> Result<u8, Failure> {
    let deadline = match command {
        Command::Barrier(args) => args.deadline(),
        _ => None,
    };
    loop {
        let client = sessions.open(deadline).await?;
        let result = {
            let retry = Sessions::retry(&client);
            operate(&mut sessions, &client, &retry, command, deadline, output).await
        };
        match &result {
            // The session is left to expire, and the ephemeral node with it.
            Ok(()) if matches!(command, Command::Create(create) if create.ephemeral) => {
                drop(client.detach());
            }
            Err(failure) if failure.starts_over() => {
                sessions.count_answers();
                if sessions.may_go_on() {
                    continue;
                }
                client.close().await;
            }
            _ => client.close().await,
        }
        return result.map(|()| 0);
    }
}

fn operate<'a>(
    sessions: &'a mut Sessions,
    client: &'a Client,
    retry: &'a Retry,
    command: &'a Command,
    deadline: Option<Instant>,
    output: Output,
) -> Work<'a, ()> {
    match command {
        Command::Participants { path, semaphore, table } => Box::pin(async move {
            let listed = sessions.run_connected(participants::list(client, path, *semaphore));
            let listed = listed.await??;
            if listed.is_empty() {
                participants::print_why_empty(retry, path, *semaphore, output).await?;
            }
            participants::print(&listed, *semaphore, *table, output)
        }),
        Command::Revoke { node } => Box::pin(nodes::revoke(sessions, client, node, output)),
        Command::Create(create) => Box::pin(nodes::create(client, retry, create, output)),
        Command::Get { path } => Box::pin(nodes::get(retry, path, output)),
        Command::Set { path, data, acl, create: true, .. } => {
            Box::pin(nodes::set_or_create(retry, path, data, acl, output))
        }
        Command::Set { path, data, version, create: false, .. } => {
            Box::pin(nodes::set(retry, path, data, *version, output))
        }
        Command::Delete { path, version, recursive: false } => {
            Box::pin(nodes::delete(retry, path, *version, output))
        }
        Command::Delete { path, version, recursive: true } => {
            Box::pin(nodes::delete_recursive(client, retry, path, *version, output))
        }
        Command::Exists { path } => Box::pin(nodes::exists(retry, path, output)),
        Command::Ls { path, recursive: false } => Box::pin(nodes::ls(retry, path, output)),
        Command::Ls { path, recursive: true } => {
            Box::pin(subtree::ls(client, retry, path, sessions.presented(), output))
        }
        Command::Tree(tree) => {
            Box::pin(tree::run(client, retry, tree, sessions.presented(), output))
        }
        Command::Find(find) => {
            Box::pin(find::find(client, retry, find, sessions.presented(), output))
        }
        Command::Ephemerals(wanted) => {
            Box::pin(find::ephemerals(client, retry, wanted, sessions.presented(), output))
        }
        Command::Count { path } => {
            Box::pin(subtree::count(client, retry, path, sessions.presented(), output))
        }
        Command::Counter(args) => Box::pin(counter::run(sessions, client, retry, args, output)),
        Command::Barrier(args) => Box::pin(barrier::run(sessions, client, args, deadline, output)),
        Command::Discover(args) => Box::pin(discover::list(client, retry, args, output)),
        Command::Export(wanted) => {
            let work = export::run(client, retry, wanted, sessions.servers(), output);
            Box::pin(async { work.await.map_err(Failure::of_stream) })
        }
        Command::Import(wanted) => {
            let is_in_the_clear = sessions.is_in_the_clear();
            let has_identity = sessions.has_identity();
            let work = import::run(client, wanted, has_identity, is_in_the_clear, output);
            Box::pin(async { work.await.map_err(Failure::of_stream) })
        }
        Command::Sync { path } => Box::pin(nodes::sync(retry, path, output)),
        Command::Config => Box::pin(ensemble::config(retry, output)),
        Command::Reconfig(change) => Box::pin(ensemble::reconfig(client, change, output)),
        Command::Txn(txn) => Box::pin(txn::run(retry, txn, output)),
        Command::Stat { path } => Box::pin(nodes::stat(retry, path, output)),
        Command::Getacl { path } => Box::pin(acl::get(retry, path, output)),
        Command::Setacl { path, acl, version, recursive: false } => {
            Box::pin(acl::set(retry, path, acl, *version, output))
        }
        Command::Setacl { path, acl, recursive: true, .. } => {
            let servers = sessions.servers();
            Box::pin(acl::set_recursive(client, retry, path, acl, servers, output))
        }
        Command::Whoami => Box::pin(acl::who_am_i(retry, output)),
        Command::Lock(_)
        | Command::Elect(_)
        | Command::Semaphore(_)
        | Command::Multilock(_)
        | Command::Register(_)
        | Command::Watch(_)
        | Command::Top(_)
        | Command::Bench(_)
        | Command::Digest(_)
        | Command::Doctor
        | Command::Man(_)
        | Command::Completions { .. }
        | Command::Server(_) => {
            let own = "this command opens its own session".to_owned();
            Box::pin(ready(Err(Failure::other(own))))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::ffi::OsString;
    use std::process::{Command, Stdio};

    use super::*;

    /// Tokio catches the panic of a task in a build that unwinds. The test runs itself again as the program
    /// that panics, because the program ends.
    #[test]
    fn panic_in_a_task_ends_the_command_and_the_program() {
        if env::var_os(PANICS).is_some() {
            return panic_beside_a_command();
        }
        // A command in another test collects the statuses of all children.
        let _turn = child::tests::ONE_COMMAND.blocking_lock();
        let mut program = Command::new(env::current_exe().unwrap());
        program.args(["--exact", "tests::panic_in_a_task_ends_the_command_and_the_program"]);
        // The command has its standard output, too: it is read until both have ended.
        let ended = program.arg("--nocapture").env(PANICS, "1").output().unwrap();
        assert_eq!(ended.status.code(), Some(i32::from(failure::OTHER)), "{ended:?}");
        assert!(!String::from_utf8_lossy(&ended.stdout).contains(SURVIVED), "{ended:?}");
    }

    fn panic_beside_a_command() {
        end_on_panic();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let script = format!("sleep 5; echo {SURVIVED}");
            let command: [OsString; 3] = ["sh".into(), "-c".into(), script.into()];
            let end = child::End::FirstProcess;
            let spawned = child::Child::spawn(&command, [("A", "")], Stdio::null(), end);
            let mut child = spawned.unwrap();
            drop(tokio::spawn(async { panic!("a bug in a task") }));
            child.wait().await.unwrap();
        });
    }

    const PANICS: &str = "ZK_TEST_PANICS";
    const SURVIVED: &str = "the command went on";
}
