//! Kerberos realm on loopback, for tests of GSSAPI.

use std::ffi::OsString;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::server::{fresh_folder, log_tail};
use super::watchdog::Watchdog;
use super::{Error, Privilege, address, install};
use crate::poll::poll;
use crate::process;

/// Kerberos realm `ZK.TEST` with a key distribution center, from Debian's packages. Dropping it ends the
/// server and removes its files.
///
/// The principals are `zookeeper/localhost`, for servers, and `alice` and `bob`, for clients. The center also
/// knows `zookeeper/elsewhere`, whose key no server has.
#[derive(Debug)]
pub struct KerberosRealm {
    folder: PathBuf,
    kdc: Option<Watchdog>,
}

impl KerberosRealm {
    /// Starts a realm, and installs the packages for it if they are missing.
    ///
    /// # Errors
    /// If a package is missing and cannot be installed, or if the server does not start.
    pub fn start(privilege: Privilege) -> Result<Self, Error> {
        if PROGRAMS.iter().any(|program| process::find_program(program).is_none()) {
            install(&PACKAGES, privilege).map_err(Error::missing)?;
        }
        let folder = fresh_folder()?;
        // Created before the folder's files, so that an early return removes the folder.
        let mut realm = Self { folder, kdc: None };
        let address = address::next()?;
        let (host, port) = (address.ip(), address.port());
        let files = realm.folder.display();
        realm.write(KRB5_CONF, &format!(
            "[libdefaults]\n default_realm = ZK.TEST\n dns_lookup_realm = false\n dns_lookup_kdc = false\n \
             udp_preference_limit = 1\n[realms]\n ZK.TEST = {{\n  kdc = {host}:{port}\n }}\n"
        ))?;
        realm.write("kdc.conf", &format!(
            "[kdcdefaults]\n kdc_listen = {host}:{port}\n kdc_tcp_listen = {host}:{port}\n[realms]\n \
             ZK.TEST = {{\n  database_name = {files}/principals\n  key_stash_file = {files}/stash\n  \
             acl_file = {files}/acl\n }}\n"
        ))?;
        let tickets = realm.folder.join(TICKETS);
        fs::create_dir(&tickets).map_err(Error::io("making the folder for tickets"))?;
        realm.run("kdb5_util", &["create", "-r", "ZK.TEST", "-s", "-P", "master"])?;
        for (name, keytab) in PRINCIPALS {
            realm.run(
                "kadmin.local",
                &["-r", "ZK.TEST", "-q", &format!("addprinc -randkey {name}")],
            )?;
            let keytab = format!("ktadd -k {files}/{keytab} {name}");
            realm.run("kadmin.local", &["-r", "ZK.TEST", "-q", &keytab])?;
        }
        let log = realm.folder.join("log");
        let command = realm.words("krb5kdc", &["-n", "-r", "ZK.TEST"]);
        let kdc = realm.kdc.insert(Watchdog::spawn(&command, &realm.folder, &log)?);
        poll(SERVING_LIMIT, || match TcpStream::connect(address) {
            Ok(_) => Some(Ok(())),
            Err(_) if kdc.is_alive() => None,
            Err(_) => Some(Err(Error::failed(format!("no KDC:\n{}", log_tail(&log))))),
        })
        .unwrap_or_else(|| Err(Error::failed("the KDC does not serve")))?;
        Ok(realm)
    }

    /// Returns the variables that a client, `alice`, and a server in the same process need, and
    /// [`FOLDER_VARIABLE`](Self::FOLDER_VARIABLE).
    #[must_use]
    pub fn environment(&self) -> [(&'static str, OsString); 5] {
        // One file holds the tickets of one client; a folder holds those of several.
        let mut tickets = OsString::from("DIR:");
        tickets.push(self.folder.join(TICKETS));
        [
            (Self::FOLDER_VARIABLE, self.folder.clone().into()),
            ("KRB5_CONFIG", self.folder.join(KRB5_CONF).into()),
            ("KRB5_KTNAME", self.folder.join(SERVER_KEY).into()),
            ("KRB5_CLIENT_KTNAME", self.folder.join("alice.keytab").into()),
            ("KRB5CCNAME", tickets),
        ]
    }

    /// Variable with the folder of the realm, for [`Settings::kerberos`](super::Settings::kerberos).
    pub const FOLDER_VARIABLE: &str = "ZK_TEST_REALM";

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(Error::io(format_args!("writing {}", path.display())))
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), Error> {
        let words = self.words(program, arguments);
        let output = Command::new(&words[0]).args(&words[1..]).output();
        let output = output.map_err(Error::io(format_args!("running {program}")))?;
        if output.status.success() {
            return Ok(());
        }
        let told = String::from_utf8_lossy(&output.stderr);
        Err(Error::failed(format!("{program} failed: {}", told.trim())))
    }

    fn words(&self, program: &str, arguments: &[&str]) -> Vec<OsString> {
        let variable = |name: &str, file: &str| {
            let mut word = OsString::from(format!("{name}="));
            word.push(self.folder.join(file));
            word
        };
        let path = process::find_program(program).unwrap_or_else(|| program.into());
        let mut words = vec!["env".into(), variable("KRB5_CONFIG", KRB5_CONF)];
        words.extend([variable("KRB5_KDC_PROFILE", "kdc.conf"), path.into()]);
        words.extend(arguments.iter().map(OsString::from));
        words
    }
}

impl Drop for KerberosRealm {
    fn drop(&mut self) {
        drop(self.kdc.take());
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the configuration file of the realm in `folder`.
pub(super) fn krb5_conf(folder: &Path) -> PathBuf {
    folder.join(KRB5_CONF)
}

/// Returns the text of the file from which a server takes its principal.
pub(super) fn login_module(folder: &Path) -> String {
    format!(
        "Server {{\n  com.sun.security.auth.module.Krb5LoginModule required\n  useKeyTab=true storeKey=true \
         useTicketCache=false\n  keyTab=\"{}\"\n  principal=\"zookeeper/localhost@ZK.TEST\";\n}};\n",
        folder.join(SERVER_KEY).display()
    )
}

const KRB5_CONF: &str = "krb5.conf";
const SERVER_KEY: &str = "zookeeper.keytab";
const TICKETS: &str = "tickets";

/// Each principal, and the file with its key.
const PRINCIPALS: [(&str, &str); 4] = [
    ("zookeeper/localhost", SERVER_KEY),
    ("zookeeper/elsewhere", "elsewhere.keytab"),
    ("alice", "alice.keytab"),
    ("bob", "alice.keytab"),
];

const PROGRAMS: [&str; 3] = ["krb5kdc", "kdb5_util", "kadmin.local"];
const PACKAGES: [&str; 2] = ["krb5-kdc", "krb5-admin-server"];

/// A key distribution center starts within a fraction of a second.
const SERVING_LIMIT: Duration = Duration::from_secs(30);
