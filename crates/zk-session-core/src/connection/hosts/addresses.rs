//! Addresses of a host name, and which of its servers a connection is to.

use std::net::{IpAddr, SocketAddr};

use super::{Hosts, Server, shuffle};
use crate::Host;
use crate::limits::ADDRESSES_MAX;
use crate::rng::Rng;

impl Hosts {
    /// Notes the addresses of the current host, each of them a server. Returns the host with the addresses
    /// in the order in which they are to be tried.
    pub(in crate::connection) fn resolved(
        &mut self,
        found: Vec<SocketAddr>,
        rng: &mut Rng,
    ) -> Host {
        let (host, current) = (self.current().clone(), self.servers[self.current].address);
        let found = in_turn(found, rng);
        let at = self.servers.iter().position(|server| server.host == host).unwrap_or(0);
        let (mut own, mut others): (Vec<Server>, Vec<Server>) =
            std::mem::take(&mut self.servers).into_iter().partition(|server| server.host == host);
        own.retain(|server| server.address.is_some_and(|address| found.contains(&address)));
        for address in found {
            if own.iter().all(|server| server.address != Some(address)) {
                own.push(Server::new(host.clone(), Some(address)));
            }
        }
        if own.len() > ADDRESSES_MAX {
            own.sort_by_key(|server| server.is_doubtful);
            own.truncate(ADDRESSES_MAX);
        }
        let still = own.iter().position(|server| server.address == current);
        let known = still.or_else(|| own.iter().position(|server| !server.is_doubtful));
        let first = known.unwrap_or(0);
        others.splice(at..at, own);
        self.servers = others;
        self.turn_to(at + first);
        let raced = self.raced().into_iter();
        host.with_addresses(raced.filter_map(|at| self.servers[at].address).collect())
    }

    /// Returns the indices of the servers that an attempt tries together, the current one first: those of
    /// its name that are not doubtful. If it is doubtful itself, the others are no better.
    pub(super) fn raced(&self) -> Vec<usize> {
        let (count, current) = (self.servers.len(), &self.servers[self.current]);
        let lap = (1..count).map(|step| (self.current + step) % count);
        let others = lap.filter(|at| {
            let other = &self.servers[*at];
            other.host == current.host && (current.is_doubtful || !other.is_doubtful)
        });
        std::iter::once(self.current).chain(others).collect()
    }

    /// Notes to which address of the current host the connection is. Those before it were slower, or
    /// refused it.
    pub(in crate::connection) fn opened(&mut self, address: IpAddr) {
        let raced = self.raced();
        let is_it = |at: &usize| self.servers[*at].address.is_some_and(|own| own.ip() == address);
        let Some(won) = raced.iter().position(is_it) else { return };
        for passed_over in &raced[..won] {
            let server = &mut self.servers[*passed_over];
            (server.is_doubtful, server.was_passed_over) = (true, true);
        }
        self.current = raced[won];
    }
}

/// Returns the order in which new addresses are tried. It is random, so that a thousand clients do not
/// all use the first address. The two families alternate, starting with the one that the system
/// prefers.
fn in_turn(found: Vec<SocketAddr>, rng: &mut Rng) -> Vec<SocketAddr> {
    let v6_first = found.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut second): (Vec<SocketAddr>, Vec<SocketAddr>) =
        found.into_iter().partition(|address| address.is_ipv6() == v6_first);
    for family in [&mut first, &mut second] {
        family.sort_unstable();
        family.dedup();
        shuffle(family, rng);
    }
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut addresses = Vec::new();
    while first.len() + second.len() > 0 {
        addresses.extend(first.next());
        addresses.extend(second.next());
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_alternate_families_in_random_order() {
        let v4 = |n| SocketAddr::from(([10, 0, 0, n], 1));
        let v6 = |n| SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, n], 1));
        let mut rng = Rng::new(1);
        let mut in_turn = |found| in_turn(found, &mut rng);
        let found: Vec<SocketAddr> = (0..6).map(v6).chain((0..2).map(v4)).chain([v4(0)]).collect();
        let orders: Vec<Vec<SocketAddr>> = (0..20).map(|_| in_turn(found.clone())).collect();
        for order in &orders {
            let v6: Vec<bool> = order.iter().map(SocketAddr::is_ipv6).collect();
            assert_eq!(v6, [true, false, true, false, true, true, true, true]);
        }
        assert!(orders.iter().any(|order| *order != orders[0]));
        let as_many: Vec<SocketAddr> = [v6(1), v4(1), v6(2), v4(2)].into();
        assert_eq!(in_turn(as_many).len(), 4);
    }
}
