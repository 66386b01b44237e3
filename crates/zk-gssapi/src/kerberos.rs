//! Kerberos credentials, from which each connection gets its mechanism.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use libgssapi::context::{ClientCtx, CtxFlags};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::error::{Error, MajorFlags};
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_KRB5_PRINCIPAL, OidSet};
use tokio::sync::Semaphore;
use zk_session::{Host, Sasl, SaslMechanism, SaslPreparation};

use crate::host_name;
use crate::limits::PREPARATIONS_MAX;
use crate::mechanism::Gssapi;

/// Kerberos credentials for SASL, and how the principals of the servers are named.
///
/// The client is the default principal of the credential cache (`KRB5CCNAME`) or of the client
/// keytab (`KRB5_CLIENT_KTNAME`), unless [`client`](Self::client) names another. The cache is opened
/// again for each connection, so that a renewed ticket counts from the next connection on.
///
/// # Principal of a server
/// It is `zookeeper/<host>`, as for Java's client, in the realm of the client. `<host>` is the
/// canonical name of the address to which the client is connected, in lower case: the name that DNS
/// has for the address, if that name has the address too. Otherwise it is the name in the connect
/// string.
///
/// Java's client also reads `[domain_realm]` in `krb5.conf`, and makes `zk1.example.com` of `zk1`
/// even without canonical names. This does neither: set the [`realm`](Self::realm) of servers that
/// are in another one.
///
/// Whoever forges DNS can lead the client to another server that has a principal there. With
/// [`without_canonicalization`] the names in the connect string count.
///
/// | setting of Java's client | here |
/// |---|---|
/// | `zookeeper.sasl.client.username` | [`service`](Self::service) |
/// | `zookeeper.sasl.client.canonicalize.hostname` | [`without_canonicalization`] |
/// | `zookeeper.server.realm` | [`realm`](Self::realm) |
/// | `zookeeper.server.principal` | [`server_principal`](Self::server_principal) |
///
/// [`without_canonicalization`]: Self::without_canonicalization
///
/// # Errors
/// A connection without a ticket ends with
/// [`SaslFailure::NotPrepared`](zk_session::SaslFailure::NotPrepared), whose text is the library's.
/// If the client has credentials, it names the principal of the server; if not, the kind is
/// `NotFound`.
#[derive(Clone, Debug)]
pub struct Kerberos {
    names: Names,
}

#[derive(Clone, Debug)]
struct Names {
    client: Option<String>,
    service: String,
    realm: Option<String>,
    server_principal: Option<String>,
    canonicalizes: bool,
}

impl Kerberos {
    /// Takes the default credentials, and the names of servers that Java's client uses by default.
    #[must_use]
    pub fn new() -> Self {
        let names = Names {
            client: None,
            service: "zookeeper".to_owned(),
            realm: None,
            server_principal: None,
            canonicalizes: true,
        };
        Self { names }
    }

    /// Names the principal of the client, for example `shop@EXAMPLE.COM`.
    #[must_use]
    pub fn client(mut self, principal: impl Into<String>) -> Self {
        self.names.client = Some(principal.into());
        self
    }

    /// Replaces the first part of the servers' principals, by default `zookeeper`.
    #[must_use]
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.names.service = service.into();
        self
    }

    /// Sets the realm of the servers, instead of the client's.
    #[must_use]
    pub fn realm(mut self, realm: impl Into<String>) -> Self {
        self.names.realm = Some(realm.into());
        self
    }

    /// Sets one principal for all servers, for example `zookeeper/zk.example.com@EXAMPLE.COM`. The
    /// other settings about servers have no effect then.
    #[must_use]
    pub fn server_principal(mut self, principal: impl Into<String>) -> Self {
        self.names.server_principal = Some(principal.into());
        self
    }

    /// Omits the lookup of the servers' canonical names. The principals have the names in the connect
    /// string.
    ///
    /// A lookup in a DNS that does not answer takes about ten seconds, which is longer than an
    /// attempt to connect.
    #[must_use]
    pub fn without_canonicalization(mut self) -> Self {
        self.names.canonicalizes = false;
        self
    }
}

impl Default for Kerberos {
    fn default() -> Self {
        Self::new()
    }
}

impl Sasl for Kerberos {
    fn prepare(&self, host: &Host, address: Option<IpAddr>) -> SaslPreparation {
        let names = self.names.clone();
        let host = host.name().to_owned();
        Box::pin(async move {
            let permit = PREPARATIONS.acquire().await.map_err(io::Error::other)?;
            let begun = tokio::task::spawn_blocking(move || {
                let begun = names.begin(&host, address);
                drop(permit);
                begun
            });
            let panicked = |_| io::Error::other("the request for a Kerberos ticket panicked");
            Ok::<Box<dyn SaslMechanism>, _>(Box::new(begun.await.map_err(panicked)??))
        })
    }
}

/// Preparations of all sessions of the process. They use threads of the runtime's pool, as long as Kerberos
/// servers and DNS take.
static PREPARATIONS: Semaphore = Semaphore::const_new(PREPARATIONS_MAX);

impl Names {
    /// Gets the ticket for a server. It looks up names, asks Kerberos servers, and blocks.
    fn begin(&self, host: &str, address: Option<IpAddr>) -> io::Result<Gssapi> {
        let server = self.server(host, address);
        let context = self.context(&server).map_err(|error| explain(error, "the credentials"))?;
        Gssapi::begin(context).map_err(|error| explain(error, &format!("a ticket for {server}")))
    }

    fn context(&self, server: &str) -> Result<ClientCtx, Error> {
        let client = self.client.as_ref();
        let client = client.map(|name| principal(name)).transpose()?;
        let mechanisms = OidSet::singleton(GSS_MECH_KRB5)?;
        let credentials =
            Cred::acquire(client.as_ref(), None, CredUsage::Initiate, Some(&mechanisms))?;
        let flags = CtxFlags::GSS_C_MUTUAL_FLAG
            | CtxFlags::GSS_C_INTEG_FLAG
            | CtxFlags::GSS_C_SEQUENCE_FLAG;
        Ok(ClientCtx::new(Some(credentials), principal(server)?, flags, Some(GSS_MECH_KRB5)))
    }

    /// Returns the principal of a server. An empty realm stands for the client's.
    fn server(&self, host: &str, address: Option<IpAddr>) -> String {
        if let Some(principal) = &self.server_principal {
            return principal.clone();
        }
        let address = if self.canonicalizes { address } else { None };
        let host = host_name::canonical(host, address);
        format!("{}/{host}@{}", self.service, self.realm.as_deref().unwrap_or_default())
    }
}

/// Returns the library's name for a principal. As it is not a name of a host, the library does not
/// look up another one.
fn principal(name: &str) -> Result<Name, Error> {
    Name::new(name.as_bytes(), Some(GSS_NT_KRB5_PRINCIPAL))
}

fn explain(error: Error, wanted: &str) -> io::Error {
    // A number within the flags, and not flags.
    let routine_error = error.major.bits() & 0x00ff_0000;
    let of_credentials = [MajorFlags::GSS_S_NO_CRED, MajorFlags::GSS_S_CREDENTIALS_EXPIRED];
    // An expired ticket of the cache is also told as a failure with this code.
    let has_none = of_credentials.iter().any(|flag| flag.bits() == routine_error)
        || error.minor == KRB5KRB_AP_ERR_TKT_EXPIRED;
    let kind = match error.minor {
        KRB5_KDC_UNREACH => io::ErrorKind::HostUnreachable,
        _ if has_none => io::ErrorKind::NotFound,
        _ => io::ErrorKind::PermissionDenied,
    };
    let advice = match (has_none, std::env::var_os(KEYTAB)) {
        (true, None) => format!("; run kinit, or name a keytab in {KEYTAB}"),
        (true, Some(file)) => {
            format!("; check the keytab {} in {KEYTAB}, and krb5.conf", Path::new(&file).display())
        }
        (false, _) => String::new(),
    };
    io::Error::new(kind, format!("Kerberos: {wanted}: {error}{advice}"))
}

/// MIT's code for a ticket that has expired.
const KRB5KRB_AP_ERR_TKT_EXPIRED: u32 = 0x96c7_3a20; // -1765328352

/// MIT's code for a Kerberos server that cannot be reached.
const KRB5_KDC_UNREACH: u32 = 0x96c7_3a9c; // -1765328228

/// The variable with the keytab of the client.
const KEYTAB: &str = "KRB5_CLIENT_KTNAME";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_principal_follows_the_settings() {
        let server = |kerberos: Kerberos| kerberos.names.server("ZK1.example.com", None);
        assert_eq!(server(Kerberos::new()), "zookeeper/zk1.example.com@");
        assert_eq!(server(Kerberos::new().realm("B.COM")), "zookeeper/zk1.example.com@B.COM");
        assert_eq!(server(Kerberos::new().service("zk")), "zk/zk1.example.com@");
        let fixed = Kerberos::new().server_principal("zookeeper/all@B.COM").realm("C.COM");
        assert_eq!(server(fixed), "zookeeper/all@B.COM");
    }
}
