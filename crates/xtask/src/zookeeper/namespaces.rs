//! Network for an ensemble: one network namespace per server, joined by a bridge, with links that can be cut.
//!
//! ```text
//!   this process, 10.88.K.1 on bridge zkbK
//!        |                |                |
//!   zkKs0: 10.88.K.10  zkKs1: ...11    zkKs2: ...12
//! ```
//!
//! Packets stay on the machine, because no address of the bridge is routed elsewhere. All names contain the
//! number K. A process claims K by creating the bridge, so parallel runs do not collide. The bridge's alias
//! contains the id of that process. The next process that creates a network removes the networks of killed
//! processes.

use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use super::Error;
use super::install::{self, Privilege};
use crate::process;

/// Bridge and its namespaces. Dropping it removes both.
#[derive(Debug)]
pub(super) struct Network {
    tools: Tools,
    number: u8,
    hosts: u8,
}

impl Network {
    /// Creates a network of `hosts` namespaces.
    pub(super) fn create(hosts: usize) -> Result<Self, Error> {
        let tools = ensure_tools(Privilege::of_tests())?;
        let hosts = u8::try_from(hosts).unwrap_or(HOSTS_MAX).min(HOSTS_MAX);

        // Only one process at a time claims a number, so that none removes the incomplete network of another.
        let lock = install::lock_file("zk-xtask-namespaces")?;
        tools.sweep();
        let number = (NUMBER_MIN..=NUMBER_MAX)
            .find(|number| {
                !fs::exists(format!("/sys/class/net/{}", bridge(*number))).unwrap_or(true)
            })
            .ok_or_else(|| Error::unsupported("every bridge name is taken"))?;
        tools
            .ip(&["link", "add", "name", &bridge(number), "type", "bridge"])
            .map_err(|error| Error::unsupported(error.to_string()))?;
        // From here on, dropping `network` after a failure removes all created parts.
        let network = Self { tools, number, hosts };
        let owner = format!("{OWNER_PREFIX}{}", std::process::id());
        network.tools.ip(&["link", "set", "dev", &bridge(number), "alias", &owner])?;
        drop(lock);

        network.connect().map_err(|error| Error::unsupported(error.to_string()))?;
        Ok(network)
    }

    /// Returns the address of the namespace at `index`.
    pub(super) fn host(&self, index: usize) -> Ipv4Addr {
        let index = u8::try_from(index).unwrap_or(HOSTS_MAX).min(HOSTS_MAX);
        Ipv4Addr::new(10, 88, self.number, FIRST_HOST + index)
    }

    /// Wraps `command` so that it runs in the namespace at `index`.
    pub(super) fn inside(&self, index: usize, command: Vec<OsString>) -> Vec<OsString> {
        let namespace = self.namespace(index);
        let mut wrapped = vec![self.tools.ip.clone().into_os_string()];
        wrapped.extend(["netns".into(), "exec".into(), namespace.into()]);
        wrapped.extend(command);
        wrapped
    }

    /// Drops the packets from one namespace to another. The receiver drops them, so the sender gets no error.
    pub(super) fn cut_one_way(&self, from: usize, to: usize) -> Result<(), Error> {
        let from = self.host(from).to_string();
        self.iptables(to, &["-A", "INPUT", "-s", &from, "-j", "DROP"])
    }

    /// Removes every cut.
    pub(super) fn heal(&self) -> Result<(), Error> {
        self.indices().try_for_each(|index| self.iptables(index, &["-F", "INPUT"]))
    }

    fn connect(&self) -> Result<(), Error> {
        let bridge = bridge(self.number);
        let router = format!("10.88.{}.1/24", self.number);
        self.tools.ip(&["address", "add", &router, "dev", &bridge])?;
        self.tools.ip(&["link", "set", "dev", &bridge, "up"])?;
        for index in self.indices() {
            let namespace = self.namespace(index);
            let port = port(self.number, index);
            let address = format!("{}/24", self.host(index));
            self.tools.ip(&["netns", "add", &namespace])?;
            self.tools.ip(&[
                "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &namespace,
            ])?;
            self.tools.ip(&["link", "set", &port, "master", &bridge, "up"])?;
            self.tools.ip(&["-n", &namespace, "address", "add", &address, "dev", "eth0"])?;
            self.tools.ip(&["-n", &namespace, "link", "set", "eth0", "up"])?;
            self.tools.ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
            // Checks early, before the test, whether the kernel can filter packets.
            self.iptables(index, &["-F", "INPUT"])?;
        }
        Ok(())
    }

    fn iptables(&self, index: usize, arguments: &[&str]) -> Result<(), Error> {
        let namespace = self.namespace(index);
        let iptables = self.tools.iptables.to_string_lossy();
        let mut command = vec!["netns", "exec", &namespace, &iptables, "-w"];
        command.extend(arguments);
        self.tools.ip(&command)
    }

    fn namespace(&self, index: usize) -> String {
        namespace(self.number, index)
    }

    fn indices(&self) -> std::ops::Range<usize> {
        0..usize::from(self.hosts)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.tools.remove(self.number);
    }
}

/// Finds `ip` and `iptables`, or installs them.
pub(crate) fn ensure_tools(privilege: Privilege) -> Result<Tools, Error> {
    if !process::is_root() {
        return Err(Error::unsupported("network namespaces need root"));
    }
    let find = || Some((process::find_program("ip")?, process::find_program("iptables")?));
    let installed = match find() {
        Some(_) => Ok(()),
        None => install::install(&["iproute2", "iptables"], privilege),
    };
    let Some((ip, iptables)) = find() else {
        let why = installed.err().unwrap_or_default();
        return Err(Error::unsupported(format!("no `ip` or no `iptables` here: {why}")));
    };
    Ok(Tools { ip, iptables })
}

/// Programs that create and change networks.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    ip: PathBuf,
    iptables: PathBuf,
}

impl Tools {
    fn ip(&self, arguments: &[&str]) -> Result<(), Error> {
        let line = || format!("`ip {}`", arguments.join(" "));
        let output = Command::new(&self.ip).args(arguments).output().map_err(Error::io(line()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Error::failed(format!("{} failed: {}", line(), said.trim())))
    }

    /// Removes the networks of ended processes.
    fn sweep(&self) {
        for number in NUMBER_MIN..=NUMBER_MAX {
            let alias = fs::read_to_string(format!("/sys/class/net/{}/ifalias", bridge(number)));
            let owner = alias
                .ok()
                .and_then(|alias| alias.trim().strip_prefix(OWNER_PREFIX)?.parse::<u32>().ok());
            if owner.is_some_and(|pid| !process::is_alive(pid)) {
                self.remove(number);
            }
        }
    }

    /// Removes everything with `number` in its name, even if a part is missing.
    fn remove(&self, number: u8) {
        for index in 0..usize::from(HOSTS_MAX) {
            if fs::exists(format!("/run/netns/{}", namespace(number, index))).unwrap_or(false) {
                // The port exists until the last process in the namespace ends.
                let _ = self.ip(&["link", "delete", &port(number, index)]);
                let _ = self.ip(&["netns", "delete", &namespace(number, index)]);
            }
        }
        let _ = self.ip(&["link", "delete", &bridge(number)]);
    }
}

fn bridge(number: u8) -> String {
    format!("zkb{number}")
}

fn port(number: u8, index: usize) -> String {
    format!("zkb{number}p{index}")
}

fn namespace(number: u8, index: usize) -> String {
    format!("zk{number}s{index}")
}

/// Prefix of a bridge's alias; the process id follows.
const OWNER_PREFIX: &str = "xtask process ";

/// Container tools allocate 10.88.0.0/16 from its start.
const NUMBER_MIN: u8 = 100;
const NUMBER_MAX: u8 = 250;

const FIRST_HOST: u8 = 10;
const HOSTS_MAX: u8 = 9;
