//! `cargo xtask test kerberos`: the tests of `zk-gssapi`, in a Kerberos realm of their own.

use crate::tasks::gssapi::{MANIFEST, can_build};
use crate::tasks::{Failure, api, cargo_for, step};
use crate::zookeeper::{KerberosRealm, Privilege, SUDO_VARIABLE, install};

/// Starts a realm on loopback and runs the checks and tests of `zk-gssapi`, which install ZooKeeper if it is
/// missing. `arguments` go to `cargo test`.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if !can_build() {
        install(&["libkrb5-dev", "libclang-dev"], Privilege::Sudo).map_err(Failure::task)?;
    }
    let realm = KerberosRealm::start(Privilege::Sudo)?;
    step(&mut cargo_for(MANIFEST, &["fmt", "--check"]))?;
    let mut clippy = cargo_for(MANIFEST, &["clippy", "--locked", "--all-targets"]);
    step(clippy.args(["--", "-D", "warnings"]))?;
    api::check_gssapi()?;
    let mut test = cargo_for(MANIFEST, &["test", "--locked"]);
    step(
        test.args(arguments).envs(realm.environment()).env("CI", "true").env(SUDO_VARIABLE, "true"),
    )
}
