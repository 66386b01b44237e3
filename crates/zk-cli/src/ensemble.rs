//! `zk config` and `zk reconfig`: the servers of the ensemble.

use zk_recipes::session::{EnsembleConfig, EnsembleMember, ErrorCode, Zxid};

use crate::node_arg::Nothing;
use crate::prelude::{ClapArgs, Failure, Output, Result, Session, Value, json};
use crate::text::printable;

/// The `reconfig` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
It needs reconfigEnabled=true on the servers, and the permission to write /zookeeper/config, which the \
user super has. The new servers are printed as by zk config.

Examples:
  zk reconfig --auth digest:super:PASS --remove 3
  zk reconfig --auth digest:super:PASS --add 'server.4=zk4:2888:3888;2181'")]
pub(crate) struct Reconfig {
    /// Add a server or change it; may be repeated.
    #[arg(long, value_name = "server.ID=HOST:PORT:PORT[:ROLE];PORT")]
    add: Vec<String>,

    /// Remove the server with this id; may be repeated.
    #[arg(long, value_name = "ID")]
    remove: Vec<u64>,

    /// Only if the configuration has this version, as zk config --json prints it.
    #[arg(long, value_name = "VERSION", value_parser = version)]
    from_version: Option<Zxid>,
}

impl Reconfig {
    pub(crate) fn check(&self) -> Result<()> {
        if self.add.is_empty() && self.remove.is_empty() {
            return Err(Failure::usage("say --add or --remove; see --help"));
        }
        Ok(())
    }
}

pub(crate) async fn config(session: &Session, _: &Nothing) -> Result<()> {
    let config = session.retry.run(|client| client.get_config()).await?;
    if config.members.is_empty() {
        session.output.note("the server names no members: it stands alone, and is no ensemble");
    }
    print(&config, session.output)
}

pub(crate) async fn reconfig(session: &Session, change: &Reconfig) -> Result<()> {
    let add: Vec<&str> = change.add.iter().map(String::as_str).collect();
    let changed = session.client.reconfig(&add, &change.remove, change.from_version).await;
    let hint = "set reconfigEnabled=true on the servers";
    let changed = changed
        .map_err(|error| Failure::from(error).with_hint(ErrorCode::RECONFIG_DISABLED, hint))?;
    print(&changed, session.output)
}

fn print(config: &EnsembleConfig, output: Output) -> Result<()> {
    let role =
        |member: &EnsembleMember| if member.is_observer { "observer" } else { "participant" };
    let lines = config.members.iter().map(|member| {
        let client = member.client_address.as_deref().unwrap_or("-");
        let peer = printable(&member.peer_address);
        format!("{}\t{}\t{client}\t{peer}", member.id, role(member))
    });
    output.print(lines.collect::<Vec<_>>(), || {
        let member = |member: &EnsembleMember| {
            json!({
                "id": member.id,
                "role": role(member),
                "client": member.client_address,
                "secure_client": member.secure_client_address,
                "peer": member.peer_address,
            })
        };
        let members: Vec<Value> = config.members.iter().map(member).collect();
        json!({ "version": format!("{:x}", config.zxid), "members": members })
    })
}

/// Parses a version as `zk config --json` prints it.
fn version(text: &str) -> Result<Zxid, String> {
    text.parse()
        .map_err(|_| "write a version in hexadecimal, as zk config --json prints it".to_owned())
}
