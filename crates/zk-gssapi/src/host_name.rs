//! Host names of servers, as Java's client puts them into principals.

use std::net::IpAddr;

/// Returns the canonical name of the server at `address`, in lower case and without a dot at the
/// end: the name that DNS has for the address, if the address is also one of that name. Otherwise it
/// is the name in the connect string, `host`.
///
/// This is the rule of Java's `InetAddress.getCanonicalHostName` and of ZooKeeper's
/// `SaslServerPrincipal`. Because of the second half, control of the reverse zone alone is not
/// enough to choose the principal.
pub(crate) fn canonical(host: &str, address: Option<IpAddr>) -> String {
    // Java, too, takes the IPv4 address out of `::ffff:10.0.0.1`.
    let found = address.and_then(|address| verified(address.to_canonical(), &Dns));
    let name = found.unwrap_or_else(|| host.to_owned());
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Lookups of host names.
trait Names {
    fn name_of(&self, address: IpAddr) -> Option<String>;
    fn addresses_of(&self, name: &str) -> Vec<IpAddr>;
}

/// The lookups of the operating system. They block.
struct Dns;

impl Names for Dns {
    fn name_of(&self, address: IpAddr) -> Option<String> {
        dns_lookup::lookup_addr(&address).ok()
    }

    fn addresses_of(&self, name: &str) -> Vec<IpAddr> {
        dns_lookup::lookup_host(name).map(Iterator::collect).unwrap_or_default()
    }
}

fn verified(address: IpAddr, names: &impl Names) -> Option<String> {
    let name = names.name_of(address)?;
    names.addresses_of(&name).contains(&address).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of a name and an address, and the pairs of the reverse zone.
    struct Zones(&'static [(&'static str, [u8; 4])], &'static [([u8; 4], &'static str)]);

    impl Names for Zones {
        fn name_of(&self, address: IpAddr) -> Option<String> {
            let own = |entry: &&([u8; 4], &str)| IpAddr::from(entry.0) == address;
            self.1.iter().find(own).map(|(_, name)| (*name).to_owned())
        }

        fn addresses_of(&self, name: &str) -> Vec<IpAddr> {
            let own = self.0.iter().filter(|entry| entry.0 == name);
            own.map(|(_, address)| IpAddr::from(*address)).collect()
        }
    }

    #[test]
    fn name_counts_only_if_both_zones_agree() {
        let zones = Zones(
            &[("zk1.example.com", [10, 0, 0, 1]), ("zk1.example.com", [10, 0, 0, 2])],
            &[
                ([10, 0, 0, 2], "zk1.example.com"),
                ([10, 0, 0, 3], "zk1.example.com"),
                ([10, 0, 0, 4], "nowhere.example.com"),
            ],
        );
        let found = |last| verified(IpAddr::from([10, 0, 0, last]), &zones);
        assert_eq!(found(2).as_deref(), Some("zk1.example.com"));
        assert_eq!(found(1), None, "no reverse entry");
        assert_eq!(found(3), None, "the name has other addresses");
        assert_eq!(found(4), None, "the name has no address");
    }

    #[test]
    fn name_is_kept_without_an_address() {
        assert_eq!(canonical("ZK1.Example.COM", None), "zk1.example.com");
        assert_eq!(canonical("zk1.example.com.", None), "zk1.example.com");
    }
}
