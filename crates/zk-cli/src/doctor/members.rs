//! The connect string, compared with itself and with the members of the ensemble.

use std::net::{IpAddr, SocketAddr};

use tokio::time::timeout;
use zk_recipes::session::{
    Client, Connector, EnsembleConfig, EnsembleMember, Host, Tcp, Transport,
};

use super::CONNECT_LIMIT;
use super::finding::{Finding, Level, label};
use crate::prelude::{data_text, json};

/// A server of the connect string.
pub(super) struct Listed {
    /// It has an address if its name has several.
    pub(super) host: Host,
    /// `None` if the name cannot be resolved.
    address: Option<IpAddr>,
    is_tls: bool,
}

impl Listed {
    pub(super) async fn all(host: &Host, uses_tls: bool) -> Vec<Self> {
        let is_tls = uses_tls && host.transport() != Transport::Tcp;
        let listed = |host, address| Self { host, address, is_tls };
        match resolve(host.name()).await[..] {
            [] => vec![listed(host.clone(), None)],
            [address] => vec![listed(host.clone(), Some(address))],
            ref several => {
                let at = |address: &IpAddr| vec![SocketAddr::new(*address, host.port())];
                let one =
                    |address| listed(host.clone().with_addresses(at(address)), Some(*address));
                several.iter().map(one).collect()
            }
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_same_place = match (self.address, other.address) {
            (Some(own), Some(others)) => own == others,
            _ => self.host.name() == other.host.name(),
        };
        self.host.port() == other.host.port() && is_same_place
    }

    /// Returns true if this may be the server of the ensemble that has this name. The configuration
    /// has no port for TLS, and without dynamic reconfiguration it may have no port at all.
    fn is_member(&self, name: &str, addresses: &[IpAddr], port: Option<u16>) -> bool {
        let is_port = self.is_tls || port.is_none_or(|port| port == self.host.port());
        let is_address = self.address.is_some_and(|own| addresses.contains(&own));
        is_port && (self.host.name() == name || is_address)
    }
}

/// Returns a finding if an earlier server of the connect string is the same one.
pub(super) fn repetition(earlier: &[Listed], host: &Listed) -> Option<Finding> {
    let first = earlier.iter().find(|server| server.is_same(host))?;
    let first = label(&first.host);
    let text = format!("the connect string has this server twice, first as {first}");
    let values = json!({ "first": first });
    Some(Finding::of(&host.host, Level::Warning, "server_repeated", text).with(values))
}

/// Compares the members of the ensemble with the connect string. Observers may be left out of it on
/// purpose.
pub(super) async fn differences(client: &Client, listed: &[Listed]) -> Vec<Finding> {
    let config = match client.get_config().await {
        Ok(config) => config,
        Err(error) => {
            let why = if error.is_no_auth() {
                "no permission to read /zookeeper/config".to_owned()
            } else {
                error.to_string()
            };
            let text = format!("{why}: the members are not compared with the connect string");
            return vec![Finding::new(Level::Note, "members_unknown", text)];
        }
    };
    compare(&config, listed).await
}

async fn compare(config: &EnsembleConfig, listed: &[Listed]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut strangers: Vec<&Listed> = listed.iter().collect();
    for member in &config.members {
        let Some((name, port)) = address(member) else { continue };
        let addresses = resolve(name).await;
        let is_this = |server: &Listed| server.is_member(name, &addresses, port);
        strangers.retain(|server| !is_this(server));
        if member.is_observer || listed.iter().any(is_this) {
            continue;
        }
        let server = port.map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        let text = "a member of the ensemble, which the connect string lacks";
        let server = data_text(server.as_bytes());
        let finding = Finding::new(Level::Warning, "member_not_listed", text);
        findings.push(Finding { server, ..finding });
    }
    // If no name fits, the servers have other names here, for example that of a proxy.
    if strangers.len() < listed.len() {
        let why = "the ensemble has removed it or never had it, or this is another name of one";
        let text = format!("not a member of the ensemble: {why}");
        let finding = |host| Finding::of(host, Level::Warning, "not_a_member", text.as_str());
        findings.extend(strangers.into_iter().map(|server| finding(&server.host)));
    }
    findings
}

/// Returns the name and the port for clients. Without one, the name is that for the other servers.
fn address(member: &EnsembleMember) -> Option<(&str, Option<u16>)> {
    let (name, port) = match &member.client_address {
        Some(address) => {
            let (name, port) = address.rsplit_once(':')?;
            (name, Some(port.parse().ok()?))
        }
        None => (member.peer_address.split('|').next()?.rsplitn(3, ':').nth(2)?, None),
    };
    Some((name.trim_start_matches('[').trim_end_matches(']'), port))
}

/// Returns the addresses of a name, sorted: the IPv4 addresses if it has any, so that `localhost` is
/// 127.0.0.1.
async fn resolve(name: &str) -> Vec<IpAddr> {
    let Ok(Ok(found)) = timeout(CONNECT_LIMIT, Tcp.resolve(&Host::new(name, 0))).await else {
        return Vec::new();
    };
    let mut addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
    if addresses.iter().any(IpAddr::is_ipv4) {
        addresses.retain(IpAddr::is_ipv4);
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn listed(name: &str, port: u16, uses_tls: bool) -> Listed {
        Listed::all(&Host::new(name, port), uses_tls).await.remove(0)
    }

    #[test]
    fn addresses_of_one_name_are_servers_of_their_own() {
        let listed = |n: u8| {
            let address = IpAddr::from([10, 0, 0, n]);
            let host = Host::new("zk", 1).with_addresses(vec![SocketAddr::new(address, 1)]);
            Listed { host, address: Some(address), is_tls: false }
        };
        assert!(repetition(&[listed(1)], &listed(2)).is_none());
        let finding = repetition(&[listed(1)], &listed(1)).unwrap();
        assert!(finding.text.ends_with("first as zk:1 (10.0.0.1)"), "{}", finding.text);
    }

    #[tokio::test]
    async fn repeated_server_is_found_by_name_or_address() {
        let first = [listed("127.0.0.1", 1, false).await, listed("no.invalid", 1, false).await];
        for (name, port, is_repeated) in [
            ("127.0.0.1", 1, true),
            ("localhost", 1, true),
            ("no.invalid", 1, true),
            ("127.0.0.1", 2, false),
            ("127.0.0.2", 1, false),
            ("other.invalid", 1, false),
        ] {
            let found = repetition(&first, &listed(name, port, false).await);
            assert_eq!(found.is_some(), is_repeated, "{name}:{port}");
        }
    }

    #[tokio::test]
    async fn member_is_listed_under_any_of_its_names() {
        let (ip, port) = ("127.0.0.1".parse().unwrap(), Some(2181));
        let is_member = async |name: &str, listed_port, uses_tls, port| {
            listed(name, listed_port, uses_tls).await.is_member("zk1", &[ip], port)
        };
        assert!(is_member("localhost", 2181, false, port).await);
        assert!(is_member("zk1", 2181, false, port).await);
        assert!(!is_member("localhost", 2182, false, port).await);
        assert!(is_member("localhost", 2281, true, port).await, "the port for TLS is not known");
        assert!(is_member("localhost", 2182, false, None).await);
        assert!(!is_member("127.0.0.2", 2181, true, port).await);
    }
}
