//! The `zk` command: locks and plain operations on ZooKeeper from a shell.

mod args;
mod child;
mod failure;
mod grip;
mod lock;
mod nodes;
mod output;
mod server;
mod signals;
mod watch;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use zk_recipes::Semaphore;
use zk_recipes::session::{Client, Config};

use self::args::{Args, Command};
use self::failure::{Failure, USAGE};
use self::output::Output;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                    // Nothing can be done about a terminal that is gone.
                    drop(error.print());
                    ExitCode::SUCCESS
                }
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                    drop(error.print());
                    ExitCode::from(USAGE)
                }
                _ => Failure::usage(args::one_line(&error)).report(),
            };
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::other(format!("no runtime: {error}")).report(),
    };
    match runtime.block_on(run(args)) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.report(),
    }
}

async fn run(args: Args) -> Result<u8, Failure> {
    let output = Output::new(args.json);
    // It is what others connect to: where to connect does not matter to it.
    if let Command::Server(server) = args.command {
        return server::run(server, output).await;
    }
    let config = Config::new(&args.connect)?.session_timeout(args.session_timeout);
    args.command.check_path()?;
    match args.command {
        Command::Lock(lock) => return lock::run(config, lock.into()).await,
        Command::Semaphore(semaphore) => return lock::run(config, semaphore.try_into()?).await,
        Command::Multilock(locks) => return lock::run(config, locks.try_into()?).await,
        Command::Watch { path } => return watch::run(config, &path, output).await,
        // The session is left to time out, and the node with it.
        Command::Create(create) if create.ephemeral => {
            nodes::create(&config.connect().await?, create, output).await?;
            return Ok(0);
        }
        _ => {}
    }
    let client = config.connect().await?;
    let result = operate(&client, args.command, output).await;
    client.close().await;
    result
}

async fn operate(client: &Client, command: Command, output: Output) -> Result<u8, Failure> {
    match command {
        Command::Participants { path, semaphore } => {
            // How many permits there may be does not matter to who has them.
            let participants = match semaphore {
                true => Semaphore::new(client, &path, 1)?.participants().await?,
                false => nodes::contenders(client, &path).await?,
            };
            nodes::print_participants(&participants, output)?;
        }
        Command::Revoke { node } => nodes::revoke(client, &node).await?,
        Command::Create(create) => nodes::create(client, create, output).await?,
        Command::Get { path } => nodes::get(client, &path, output).await?,
        Command::Set { path, data, version } => {
            nodes::set(client, &path, &data, version, output).await?;
        }
        Command::Delete { path, version, recursive: false } => {
            client.delete(&path, version).await?;
        }
        Command::Delete { path, version, recursive: true } => {
            nodes::delete_recursive(client, &path, version).await?;
        }
        Command::Exists { path } => nodes::exists(client, &path, output).await?,
        Command::Ls { path } => nodes::ls(client, &path, output).await?,
        Command::Stat { path } => nodes::stat(client, &path, output).await?,
        Command::Lock(_)
        | Command::Semaphore(_)
        | Command::Multilock(_)
        | Command::Watch { .. }
        | Command::Server(_) => {
            return Err(Failure::other("this command opens its own session".to_owned()));
        }
    }
    Ok(0)
}
