//! The `zk` command: locks and plain operations on ZooKeeper from a shell.

mod acl;
mod acquired_lock;
mod args;
mod barrier;
mod bench;
mod child;
mod counter;
mod data;
mod discover;
mod doctor;
mod ensemble;
mod failure;
mod find;
mod holders;
mod lock;
mod lock_args;
mod man;
mod nodes;
mod output;
mod participants;
mod progress;
mod register;
mod security;
mod server;
mod sessions;
mod signals;
mod subtree;
mod time_arg;
mod top;
mod transfer;
mod tree;
mod txn;
mod usage_error;
mod verbose;
mod verbose_log;
mod watch;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use serde_json::json;
use zk_recipes::session::{Client, Config};

use self::args::{Args, Command};
use self::doctor::Door;
use self::failure::{Failure, USAGE};
use self::output::{Output, data_json};
use self::sessions::Sessions;
use self::verbose_log::VerboseLog;

fn main() -> ExitCode {
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

async fn run(mut args: Args, output: Output) -> Result<u8, Failure> {
    // The server does not need a connect string.
    if let Command::Server(server) = args.command {
        return server::run(server, output).await;
    }
    if let Command::Completions { shell } = args.command {
        let script = completions(shell);
        output.print_data(&script, || json!({ "script": data_json(&script) }))?;
        return Ok(0);
    }
    if let Command::Man(man) = args.command {
        return man::run(&man, output).map(|()| 0);
    }
    security::refuse_empty_variables()?;
    let tls = args.security.tls(&args.connect)?;
    let credentials = args.security.credentials()?;
    let config = |connect: &str| {
        let config = Config::new(connect)?.session_timeout(args.session_timeout);
        args.security.present(config, &credentials)
    };
    if let Command::Doctor = args.command {
        let risk_without_tls = args.security.risk_without_tls(&credentials);
        let session_timeout = args.session_timeout;
        let retry = args.retry;
        let door = Door { config: &config, tls, session_timeout, retry, risk_without_tls };
        return doctor::run(&door, &args.connect, output).await;
    }
    let mut config = config(&args.connect)?;
    config = match args.command.client_name() {
        Some(name) => config.name(name),
        // A full pipe blocks this thread, and must not end the session.
        None => config.dedicated_thread(),
    };
    let presented = args.security.presented(&credentials);
    let advice = args.security.advice(&credentials);
    args.command.check_path()?;
    args.command.prepare()?;
    let tls = tls.map(security::connector).transpose()?;
    let sessions = Sessions::new(config, tls, &args.connect);
    let log = args.verbose.then(|| VerboseLog::new(output));
    let sessions = sessions.retry_for(args.retry).verbose(log.clone());
    let ended = match args.command {
        Command::Lock(lock) => lock::run(sessions, lock.into(), output).await,
        Command::Elect(elect) => lock::run(sessions, elect.into(), output).await,
        Command::Semaphore(semaphore) => lock::run(sessions, semaphore.try_into()?, output).await,
        Command::Multilock(locks) => lock::run(sessions, locks.try_into()?, output).await,
        Command::Register(register) => register::run(sessions, register, output).await,
        Command::Discover(args) if args.watch => discover::follow(sessions, &args, output).await,
        Command::Watch(watch) => watch::run(sessions, &watch, output).await,
        Command::Bench(bench) => bench::run(sessions, &bench, output).await,
        Command::Top(top) => top::run(sessions, &top, output).await,
        command => plain(sessions, &command, output).await,
    };
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
    loop {
        let client = sessions.open(None).await?;
        let result = operate(&mut sessions, &client, command, output).await;
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

async fn operate(
    sessions: &mut Sessions,
    client: &Client,
    command: &Command,
    output: Output,
) -> Result<(), Failure> {
    let retry = &Sessions::retry(client);
    match command {
        Command::Participants { path, semaphore, table } => {
            let listed = sessions.attend(participants::list(client, path, *semaphore));
            let listed = listed.await??;
            if listed.is_empty() {
                participants::tell_why_empty(retry, path, *semaphore, output).await?;
            }
            participants::print(&listed, *semaphore, *table, output)
        }
        Command::Revoke { node } => {
            let asked = sessions.attend(nodes::revoke(client, node, output)).await;
            asked.map_err(Failure::of_write)?
        }
        Command::Create(create) => nodes::create(client, retry, create, output).await,
        Command::Get { path } => nodes::get(retry, path, output).await,
        Command::Set { path, data, version } => {
            nodes::set(retry, path, data, *version, output).await
        }
        Command::Delete { path, version, recursive: false } => {
            nodes::delete(retry, path, *version, output).await
        }
        Command::Delete { path, version, recursive: true } => {
            nodes::delete_recursive(client, retry, path, *version, output).await
        }
        Command::Exists { path } => nodes::exists(retry, path, output).await,
        Command::Ls { path, recursive: false } => nodes::ls(retry, path, output).await,
        Command::Ls { path, recursive: true } => subtree::ls(client, retry, path, output).await,
        Command::Tree(tree) => tree::run(client, retry, tree, output).await,
        Command::Find(find) => find::find(client, retry, find, output).await,
        Command::Ephemerals(wanted) => find::ephemerals(client, retry, wanted, output).await,
        Command::Count { path } => subtree::count(client, retry, path, output).await,
        Command::Counter(counter) => counter::run(client, counter, output).await,
        Command::Barrier(args) => barrier::run(sessions, client, args, output).await,
        Command::Discover(args) => discover::list(client, retry, args, output).await,
        Command::Export { path } => {
            let exported = transfer::export(client, retry, path, sessions.servers(), output).await;
            exported.map_err(Failure::of_stream)
        }
        Command::Import { path, overwrite } => {
            transfer::import(client, path, *overwrite, output).await.map_err(Failure::of_stream)
        }
        Command::Sync { path } => {
            retry.run(|client| client.sync(path)).await?;
            nodes::done(path, "synced", output)
        }
        Command::Config => ensemble::config(retry, output).await,
        Command::Reconfig(change) => ensemble::reconfig(client, change, output).await,
        Command::Txn(txn) => txn::run(retry, txn, output).await,
        Command::Stat { path } => nodes::stat(retry, path, output).await,
        Command::Getacl { path } => acl::get(retry, path, output).await,
        Command::Setacl { path, acl, version } => {
            acl::set(retry, path, acl, *version, output).await
        }
        Command::Whoami => acl::who_am_i(retry, output).await,
        Command::Lock(_)
        | Command::Elect(_)
        | Command::Semaphore(_)
        | Command::Multilock(_)
        | Command::Register(_)
        | Command::Watch(_)
        | Command::Top(_)
        | Command::Bench(_)
        | Command::Doctor
        | Command::Man(_)
        | Command::Completions { .. }
        | Command::Server(_) => {
            Err(Failure::other("this command opens its own session".to_owned()))
        }
    }
}
