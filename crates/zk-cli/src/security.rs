//! The options for secured ensembles: TLS, SASL and credentials.

use std::env::VarError;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use zk_recipes::session::{Config, ConnectString, DigestMd5, Host, Transport};
use zk_tls::{Tls, TlsBuilder};

use crate::data::{read_file, unreadable};
use crate::identity::Identity;
use crate::prelude::{ClapArgs, Failure, Result};

/// The options for secured ensembles.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Secured ensembles")]
pub(crate) struct Security {
    /// Present a credential to the servers, such as digest:alice:secret; may be repeated.
    ///
    /// Other users of the machine see the arguments of a command: prefer the environment
    /// variable, which holds one credential and counts without this option only, or
    /// --auth-file, which adds to both. A newline at the end does not count. Commands that
    /// zk runs do not get the variable. Repeated options go on one side of the command's name.
    /// Servers do not check the password of a digest: a wrong one is another identity. zk digest prints
    /// the identity of a user and a password.
    #[arg(
        long,
        global = true,
        env = "ZK_AUTH",
        hide_env_values = true,
        value_name = "SCHEME:CREDENTIAL"
    )]
    auth: Vec<SecretText>,

    /// Present the credentials in a file, each on one line.
    ///
    /// Empty lines and lines that begin with # do not count, and neither do blanks at the
    /// beginning of a line.
    #[arg(long, global = true, env = "ZK_AUTH_FILE", value_name = "FILE")]
    auth_file: Option<PathBuf>,

    /// Connect over TLS, and trust the certificates that these authorities have issued.
    ///
    /// The file is PEM, and no pipe. All servers are reached over TLS, except for those with tcp:// in the
    /// connect string.
    #[arg(long, global = true, env = "ZK_CACERT", value_name = "FILE")]
    cacert: Option<PathBuf>,

    /// Reject the servers' certificates that are in this list of revoked ones. PEM.
    ///
    /// The file must then have a list of each authority in the chain.
    #[arg(long, global = true, env = "ZK_CRL", value_name = "FILE")]
    crl: Option<PathBuf>,

    /// Show the servers this certificate, with those of the authorities in between. PEM.
    #[arg(long, global = true, env = "ZK_CERT", value_name = "FILE")]
    cert: Option<PathBuf>,

    /// The private key of --cert, if it is in another file. PEM.
    #[arg(long, global = true, env = "ZK_KEY", value_name = "FILE")]
    key: Option<PathBuf>,

    /// The name in the servers' certificates, if the connect string has other names.
    #[arg(long, global = true, env = "ZK_TLS_NAME", value_name = "NAME")]
    tls_name: Option<String>,

    /// Authenticate as this user by SASL with DIGEST-MD5.
    ///
    /// The password is in the environment variable ZK_SASL_PASSWORD or, before that, in a file.
    /// That variable without --sasl is refused. Commands that zk runs do not get it.
    #[arg(long, global = true, env = "ZK_SASL_USER", value_name = "USER")]
    sasl: Option<String>,

    /// The file with the password for --sasl; it is read for each connection.
    #[arg(long, global = true, env = "ZK_SASL_PASSWORD_FILE", value_name = "FILE")]
    sasl_password_file: Option<PathBuf>,
}

/// A text from the command line that no message and no debug output may show.
#[derive(Clone)]
struct SecretText(String);

/// A credential of a scheme.
#[derive(Debug)]
pub(crate) struct Credential {
    scheme: String,
    secret: SecretText,
}

impl Credential {
    pub(crate) fn digest(&self) -> Option<(&str, &str)> {
        if self.scheme == "digest" { self.secret.0.split_once(':') } else { None }
    }
}

impl Security {
    /// Adds the credentials and the SASL user to the configuration.
    pub(crate) fn present(&self, mut config: Config, credentials: &[Credential]) -> Result<Config> {
        for Credential { scheme, secret } in credentials {
            config = config.auth(scheme, secret.0.clone());
        }
        match &self.sasl {
            Some(user) => Ok(config.sasl(self.digest_md5(user)?)),
            None if self.sasl_password_file.is_some() => {
                Err(Failure::usage("--sasl-password-file needs --sasl USER"))
            }
            None if std::env::var_os(SASL_PASSWORD).is_some() => {
                Err(Failure::usage(format!("{SASL_PASSWORD} needs --sasl USER")))
            }
            None => Ok(config),
        }
    }

    /// Returns the connector, if the servers are to be reached over TLS.
    pub(crate) fn tls(&self, connect: &str) -> Result<Option<TlsBuilder>> {
        let Some(cacert) = &self.cacert else {
            return self.without_tls(connect);
        };
        // A connect string that cannot be parsed is reported when it is used.
        let parsed = connect.parse::<ConnectString>();
        let is_plain = |host: &Host| host.transport() == Transport::Tcp;
        if parsed.is_ok_and(|servers| servers.hosts().iter().all(is_plain)) {
            return Err(Failure::usage("--cacert has no effect if all servers have tcp://"));
        }
        for file in [&self.cacert, &self.crl, &self.cert, &self.key].into_iter().flatten() {
            check(file)?;
        }
        let mut tls = Tls::builder().ca_file(cacert);
        match (&self.cert, &self.key) {
            (Some(cert), key) => {
                tls = tls.client_certificate_files(cert, key.as_ref().unwrap_or(cert));
            }
            (None, Some(_)) => return Err(Failure::usage("--key needs --cert FILE")),
            (None, None) => {}
        }
        if let Some(crl) = &self.crl {
            tls = tls.crl_file(crl);
        }
        if let Some(name) = &self.tls_name {
            tls = tls.server_name(name);
        }
        Ok(Some(tls))
    }

    /// An option for TLS that is silently without effect would leave the connection in the clear.
    fn without_tls(&self, connect: &str) -> Result<Option<TlsBuilder>> {
        let wanted = [
            ("--crl", self.crl.is_some()),
            ("--cert", self.cert.is_some()),
            ("--key", self.key.is_some()),
            ("--tls-name", self.tls_name.is_some()),
            ("tls://", connect.contains("tls://")),
        ];
        match wanted.into_iter().find(|(_, is_wanted)| *is_wanted) {
            Some((what, _)) => Err(Failure::usage(format!("{what} needs --cacert FILE"))),
            None => Ok(None),
        }
    }

    /// Says what the servers were shown.
    fn presented(&self, credentials: &[Credential]) -> String {
        let known = credentials.iter().map(|Credential { scheme, secret }| {
            // Other schemes may have a secret before the colon.
            match secret.0.split(':').next() {
                Some(user) if scheme == "digest" => format!("{scheme} as {user}"),
                _ => scheme.clone(),
            }
        });
        let sasl = self.sasl.iter().map(|user| format!("sasl as {user}"));
        let cert = self.cert.iter().map(|file| format!("certificate {}", file.display()));
        let all: Vec<String> = known.chain(sasl).chain(cert).collect();
        let kept_back = self.kept_back();
        if !all.is_empty() {
            return format!("presented: {}{kept_back}", all.join(", "));
        }
        let see = "; see --auth, --sasl and --cert in zk --help";
        format!("without credentials{}", if kept_back.is_empty() { see } else { &kept_back })
    }

    /// Says which secrets the `zk` that runs this command keeps from it, and what to use instead.
    fn kept_back(&self) -> String {
        let has_auth = !self.auth.is_empty() || self.auth_file.is_some();
        let has_password = self.sasl_password_file.is_some();
        let secrets = [
            (AUTH, "ZK_AUTH_FILE", has_auth),
            (SASL_PASSWORD, "ZK_SASL_PASSWORD_FILE", has_password),
        ];
        let kept = secrets.iter().filter(|(name, _, has_other)| !has_other && is_kept_back(name));
        let text = |(name, file, _): &(&str, &str, bool)| {
            format!("; zk keeps {name} from the commands that it runs: use {file}")
        };
        kept.map(text).collect()
    }

    /// Returns what the servers are shown. DIGEST-MD5 sends no password, and protects nothing after the
    /// authentication.
    pub(crate) fn identity(&self, credentials: &[Credential]) -> Identity {
        let is_any = !credentials.is_empty() || self.sasl.is_some() || self.cert.is_some();
        let is_digest = |credential: &Credential| credential.scheme == "digest";
        let advice = if credentials.iter().any(is_digest) {
            "; servers do not check the password of a digest, a wrong one is another identity"
        } else if is_any {
            "; zk whoami shows who that is"
        } else {
            ""
        };
        let risk_without_tls = match (credentials, &self.sasl) {
            ([_, ..], _) => Some("passwords cross the network in the clear"),
            ([], Some(_)) => Some("SASL does not protect the requests from changes on the way"),
            ([], None) => None,
        };
        Identity { is_any, presented: self.presented(credentials), advice, risk_without_tls }
    }

    /// Returns all credentials. The file may be a pipe, which can be read only once.
    pub(crate) fn credentials(&self) -> Result<Vec<Credential>> {
        let mut all = Vec::new();
        for text in &self.auth {
            // A shell removes the newline at the end of a secret, and an orchestrator does not. It would be
            // another identity.
            let text = text.0.trim_end_matches(['\r', '\n']);
            all.push(credential(text).map_err(Failure::usage)?);
        }
        let Some(file) = &self.auth_file else { return Ok(all) };
        let not_text = |_| Failure::other(format!("{}: not UTF-8", file.display()));
        let text = String::from_utf8(read_file(file)?).map_err(not_text)?;
        for (at, line) in text.lines().map(str::trim_start).enumerate() {
            if !line.is_empty() && !line.starts_with('#') {
                let at_line = |why| Failure::usage(format!("{}:{}: {why}", file.display(), at + 1));
                all.push(credential(line).map_err(at_line)?);
            }
        }
        Ok(all)
    }

    /// Returns notes about files with secrets that all users of this machine can read.
    pub(crate) fn notes_about_files(&self) -> Vec<String> {
        let is_public = |file: &&PathBuf| {
            let metadata = fs::metadata(file);
            metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o004 != 0)
        };
        let has_key = |file: &&PathBuf| {
            let pem = fs::read(file).unwrap_or_default();
            String::from_utf8_lossy(&pem).contains("PRIVATE KEY-----")
        };
        let key = self.key.as_ref().or(self.cert.as_ref()).filter(has_key);
        let files = [self.auth_file.as_ref(), self.sasl_password_file.as_ref(), key];
        let public = files.into_iter().flatten().filter(is_public).map(|file| file.display());
        public
            .map(|file| format!("{file}: all users of this machine can read it: chmod o= it"))
            .collect()
    }

    fn digest_md5(&self, user: &str) -> Result<DigestMd5> {
        if user.is_empty() {
            return Err(Failure::usage("--sasl needs the name of a user"));
        }
        if let Some(file) = self.sasl_password_file.clone() {
            check(&file)?;
            password_in(&file).map_err(|error| Failure::other(error.to_string()))?;
            return Ok(DigestMd5::reading(user, move || password_in(&file)));
        }
        match std::env::var(SASL_PASSWORD) {
            Ok(password) if password.trim_end().is_empty() => {
                Err(Failure::usage(format!("the password in {SASL_PASSWORD} is empty")))
            }
            Ok(password) => Ok(DigestMd5::new(user, password)),
            Err(VarError::NotUnicode(_)) => {
                Err(Failure::usage(format!("{SASL_PASSWORD} is not UTF-8")))
            }
            Err(VarError::NotPresent) => {
                let needs = format!("--sasl needs {SASL_PASSWORD} or --sasl-password-file FILE");
                Err(Failure::usage(needs + &self.kept_back()))
            }
        }
    }
}

/// Parses a credential. The message does not contain it.
fn credential(text: &str) -> Result<Credential, &'static str> {
    match text.split_once(':') {
        Some(("digest", secret)) if !secret.contains(':') => {
            Err("a digest credential is digest:USER:PASSWORD")
        }
        Some((scheme, secret)) if !scheme.is_empty() => {
            Ok(Credential { scheme: scheme.to_owned(), secret: SecretText(secret.to_owned()) })
        }
        _ => Err("a credential is SCHEME:CREDENTIAL, such as digest:alice:secret"),
    }
}

/// A mistyped name is reported with the file, and at once.
fn check(file: &Path) -> Result<()> {
    let found = fs::metadata(file).map_err(|error| unreadable(file.display(), &error))?;
    if !found.is_file() {
        let why = "not a regular file, which is needed because each connection reads it again";
        return Err(Failure::other(format!("{}: {why}", file.display())));
    }
    Ok(())
}

/// Reads a password. The error of a file without one names the file.
fn password_in(file: &Path) -> io::Result<Vec<u8>> {
    let about = |kind, reason: &dyn fmt::Display| {
        io::Error::new(kind, format!("the file {} for --sasl: {reason}", file.display()))
    };
    let password = fs::read(file).map_err(|error| about(error.kind(), &error))?;
    let reason = match std::str::from_utf8(&password).map(str::trim_end) {
        Ok("") => "the password is empty",
        Ok(_) => return Ok(password),
        Err(_) => "the password is not UTF-8",
    };
    Err(about(io::ErrorKind::InvalidData, &reason))
}

/// Refuses a variable that is set and empty. A script sets one when it failed to read a secret, or
/// when it means to leave the variable out.
pub(crate) fn refuse_empty_variables() -> Result<()> {
    let is_empty = |name: &&str| std::env::var_os(name).is_some_and(|value| value.is_empty());
    match VARIABLES.into_iter().find(is_empty) {
        Some(name) => {
            Err(Failure::usage(format!("the environment variable {name} is empty; unset it")))
        }
        None => Ok(()),
    }
}

/// Returns the names of the secrets that the commands of this one do not get: those in the environment,
/// and those that this one did not get itself.
pub(crate) fn secrets_to_keep_back() -> Vec<&'static str> {
    let is_there = |name: &&str| std::env::var_os(name).is_some() || is_kept_back(name);
    SECRET_VARIABLES.into_iter().filter(is_there).collect()
}

/// Returns true if another `zk` has removed this variable from the environment of this one.
fn is_kept_back(name: &str) -> bool {
    let removed = std::env::var(SECRETS_REMOVED).unwrap_or_default();
    std::env::var_os(name).is_none() && removed.split(',').any(|variable| variable == name)
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

const AUTH: &str = "ZK_AUTH";
const SASL_PASSWORD: &str = "ZK_SASL_PASSWORD";

/// The variables that hold a secret, and not the name of a file with one.
const SECRET_VARIABLES: [&str; 2] = [AUTH, SASL_PASSWORD];

/// The variable with the names of the secrets that a command of `zk` does not get.
pub(crate) const SECRETS_REMOVED: &str = "ZK_SECRETS_REMOVED";

/// The variables for secured ensembles.
const VARIABLES: [&str; 10] = [
    AUTH,
    "ZK_AUTH_FILE",
    "ZK_CACERT",
    "ZK_CRL",
    "ZK_CERT",
    "ZK_KEY",
    "ZK_TLS_NAME",
    "ZK_SASL_USER",
    SASL_PASSWORD,
    "ZK_SASL_PASSWORD_FILE",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn presenting(credentials: &[&str]) -> Security {
        let auth = credentials.iter().map(|text| SecretText((*text).to_owned())).collect();
        Security { auth, ..Security::default() }
    }

    #[test]
    fn secrets_are_in_no_message() {
        let security = presenting(&["digest:alice:sesame", "token:sesame"]);
        assert!(!format!("{security:?}").contains("sesame"), "{security:?}");
        let credentials = security.credentials().unwrap();
        assert!(!format!("{credentials:?}").contains("sesame"), "{credentials:?}");
        let identity = security.identity(&credentials);
        assert_eq!(identity.presented, "presented: digest as alice, token");
        assert!(identity.advice.contains("servers do not check"));
        assert_eq!(Security::default().identity(&[]).advice, "");
        for wrong in ["sesame", ":sesame", "digest:sesame"] {
            let failure = presenting(&[wrong]).credentials().unwrap_err();
            assert!(!format!("{failure:?}").contains("sesame"), "{failure:?}");
        }
    }

    #[test]
    fn tls_options_without_authority_are_refused() {
        let name = Security { tls_name: Some("zk".to_owned()), ..Security::default() };
        assert!(name.tls("h").is_err());
        assert!(Security::default().tls("tls://h").is_err());
        assert!(Security::default().tls("h").unwrap().is_none());
    }
}
