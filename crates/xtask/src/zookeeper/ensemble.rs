//! Ensembles: several servers that replicate one tree.

use std::net::SocketAddrV4;
use std::time::Duration;

use super::namespaces::Network;
use super::server::{Server, fresh_folder};
use super::settings::{Member, Membership};
use super::{Distribution, Error, Mode, Settings, address};
use crate::poll::poll;

/// Ensemble of servers, each in its own process.
///
/// Dropping it kills the servers and removes their data and network.
#[derive(Debug)]
pub struct Ensemble {
    // Declared before the network, because the servers must end before their namespaces are removed.
    servers: Vec<Server>,
    members: Vec<Member>,
    network: Option<Network>,
    can_change: bool,
}

impl Ensemble {
    /// Starts `count` servers on loopback and waits until all of them serve.
    ///
    /// # Errors
    /// If there is no ZooKeeper, or if not all servers serve in time.
    pub fn start(count: usize, tick_ms: u32) -> Result<Self, Error> {
        Self::on_loopback(count, &Settings::default().tick_ms(tick_ms))
    }

    /// Starts three servers, each in its own network namespace, and waits until all of them serve.
    ///
    /// Each link between them can be cut separately, and clients still reach all of them.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](super::ErrorKind::Unsupported) if this process is not root. It is also the
    /// error if `ip netns` or `iptables` does not work here, or is missing and cannot be installed. All other
    /// errors are those of [`Ensemble::start`].
    pub fn in_namespaces(tick_ms: u32) -> Result<Self, Error> {
        Self::with_namespaces(&Settings::default().tick_ms(tick_ms))
    }

    pub(super) fn on_loopback(count: usize, settings: &Settings) -> Result<Self, Error> {
        let mut members = Vec::new();
        for id in 1..=count {
            members.push(Member {
                id,
                client: address::next()?,
                quorum_port: address::next()?.port(),
                election_port: address::next()?.port(),
                is_observer: false,
            });
        }
        Self::of(&members, settings, None)
    }

    pub(super) fn with_namespaces(settings: &Settings) -> Result<Self, Error> {
        // Checked first, because the set-up of a network is expensive.
        Distribution::shared()?;
        let count = settings.namespaces;
        let network = Network::create(count)?;
        let members: Vec<Member> = (0..count)
            .map(|index| Member {
                id: index + 1,
                client: SocketAddrV4::new(network.host(index), 2181),
                quorum_port: 2888,
                election_port: 3888,
                is_observer: index + settings.observers >= count,
            })
            .collect();
        Self::of(&members, settings, Some(network))
    }

    fn of(
        members: &[Member],
        settings: &Settings,
        network: Option<Network>,
    ) -> Result<Self, Error> {
        let distribution = Distribution::shared()?;
        let (members_of, can_change) = (members.to_vec(), settings.has("reconfigEnabled=true"));
        let mut ensemble = Self { servers: Vec::new(), members: members_of, network, can_change };
        for (index, member) in members.iter().enumerate() {
            let folder = fresh_folder()?;
            let command = distribution.command(&folder, &settings.jvm_flags(&folder));
            let command = match &ensemble.network {
                Some(network) => network.inside(index, command),
                None => command,
            };
            ensemble.servers.push(Server::new(member.client, folder.clone(), command));
            let (own_id, members, is_3_4) = (member.id, members.to_vec(), distribution.is_3_4());
            let membership = Membership { own_id, members, is_3_4 };
            settings.write(&folder, member.client, Some(&membership))?;
        }
        for server in &ensemble.servers {
            server.launch()?;
        }
        ensemble.await_serving()?;
        Ok(ensemble)
    }

    /// Returns the server at `index`, counted from 0; its ZooKeeper id is one more.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn server(&self, index: usize) -> &Server {
        &self.servers[index]
    }

    /// Returns all servers.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the addresses of all servers, separated by commas.
    pub fn connect_string(&self) -> String {
        let addresses: Vec<String> = self.servers.iter().map(Server::connect_string).collect();
        addresses.join(",")
    }

    /// Returns the ZooKeeper id of the server at `index`.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn id(&self, index: usize) -> u64 {
        self.members[index].id as u64
    }

    /// Returns the line of the server at `index` in the configuration of the ensemble.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn line(&self, index: usize) -> String {
        self.members[index].line()
    }

    /// Returns the number of servers that vote: those that are no observers.
    pub fn voters(&self) -> usize {
        self.members.iter().filter(|member| !member.is_observer).count()
    }

    /// Returns true if the members of the ensemble can be changed by a request.
    pub fn can_change(&self) -> bool {
        self.can_change
    }

    /// Waits until every server serves, for example after [`Ensemble::heal`].
    ///
    /// # Errors
    /// Like [`Server::await_serving`].
    pub fn await_serving(&self) -> Result<(), Error> {
        self.servers.iter().try_for_each(|server| server.await_serving().map(drop))
    }

    /// Waits until exactly one server is in the mode `leader`, and returns its index.
    ///
    /// # Errors
    /// If there is no such server within 30 s.
    pub fn leader(&self) -> Result<usize, Error> {
        poll(ELECTION_LIMIT, || {
            let leaders = self.in_mode(Mode::Leader);
            if let [leader] = leaders[..] { Some(leader) } else { None }
        })
        .ok_or_else(|| Error::failed("the ensemble has no leader, or more than one"))
    }

    /// Waits until a server is in the mode `follower`, and returns the index of the first one.
    ///
    /// # Errors
    /// If there is no such server within 30 s.
    pub fn follower(&self) -> Result<usize, Error> {
        poll(ELECTION_LIMIT, || self.in_mode(Mode::Follower).first().copied())
            .ok_or_else(|| Error::failed("the ensemble has no follower"))
    }

    /// Cuts the link between the server at `index` and the leader, in both directions.
    ///
    /// Packets are dropped silently, so both ends keep their connections open until they time out. Clients
    /// and the third server still reach both.
    ///
    /// # Errors
    /// If the ensemble is not in namespaces, has no leader, or if `index` is the leader's.
    pub fn cut_from_leader(&self, index: usize) -> Result<(), Error> {
        self.cut(index, self.leader()?)
    }

    /// Cuts the link between two servers, like [`Ensemble::cut_from_leader`].
    ///
    /// # Errors
    /// If the ensemble is not in namespaces, or if both indices are equal.
    pub fn cut(&self, one: usize, other: usize) -> Result<(), Error> {
        if one == other {
            return Err(Error::failed(format!("server {one} has no link to itself")));
        }
        self.cut_one_way(one, other)?;
        self.cut_one_way(other, one)
    }

    /// Drops the packets from the server at `from` to the server at `to`. Packets in the other direction
    /// still arrive.
    ///
    /// # Errors
    /// If the ensemble is not in namespaces.
    pub fn cut_one_way(&self, from: usize, to: usize) -> Result<(), Error> {
        self.network()?.cut_one_way(from, to)
    }

    /// Rewrites the configuration of the server at `index`. The server reads it at its next start. JVM flags
    /// do not change.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn reconfigure(&self, index: usize, settings: &Settings) -> Result<(), Error> {
        let member = &self.members[index];
        let is_3_4 = Distribution::shared()?.is_3_4();
        let membership = Membership { own_id: member.id, members: self.members.clone(), is_3_4 };
        settings.write(self.servers[index].folder(), member.client, Some(&membership))
    }

    /// Restores every link. It does not wait: see [`Ensemble::await_serving`].
    ///
    /// # Errors
    /// If the ensemble is not in namespaces.
    pub fn heal(&self) -> Result<(), Error> {
        self.network()?.heal()
    }

    fn network(&self) -> Result<&Network, Error> {
        self.network.as_ref().ok_or_else(|| {
            Error::unsupported("links can be cut only in an ensemble made by `in_namespaces`")
        })
    }

    /// Returns the indices of the servers in a mode. A server that does not reply is in no mode.
    fn in_mode(&self, mode: Mode) -> Vec<usize> {
        let is_in_mode =
            |server: &Server| matches!(server.status(), Ok(Some(status)) if status.mode == mode);
        (0..self.servers.len()).filter(|&index| is_in_mode(&self.servers[index])).collect()
    }
}

impl Settings {
    /// Starts `count` servers on loopback as one ensemble.
    ///
    /// # Errors
    /// If there is no ZooKeeper, or if not all servers serve in time.
    pub fn start_ensemble(&self, count: usize) -> Result<Ensemble, Error> {
        Ensemble::on_loopback(count, self)
    }

    /// Starts an ensemble of which each server has its own network namespace. The last ones are the
    /// [observers](Self::namespaces).
    ///
    /// # Errors
    /// Like [`Ensemble::in_namespaces`].
    pub fn start_in_namespaces(&self) -> Result<Ensemble, Error> {
        Ensemble::with_namespaces(self)
    }
}

/// With a tick of 2 s, followers drop a silent leader after 10 s.
const ELECTION_LIMIT: Duration = Duration::from_secs(30);
