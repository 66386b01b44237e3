//! One instance of a service, as Curator's `ServiceInstance`.

mod error;
mod json;
mod random_id;
mod service_type;
mod uri_spec;

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

pub use self::error::InstanceError;
pub use self::service_type::ServiceType;
pub use self::uri_spec::{UriPart, UriSpec};

/// One instance of a service, with its address and its payload: Curator's `ServiceInstance`.
///
/// # On the wire
/// A JSON object in UTF-8, as Curator's `JsonInstanceSerializer` writes it: `name`, `id`, `address`,
/// `port`, `sslPort`, `payload`, `registrationTimeUTC`, `serviceType`, `uriSpec`, in this order. A
/// field without a value is `null`. `enabled` follows only if it is false, because clients of
/// Curator before 3.2 reject it.
///
/// [`from_json`](Self::from_json) accepts what Curator accepts, with these differences. A port outside
/// of 0 to 65535, a pattern of more than [`URI_PARTS_MAX`](crate::limits::URI_PARTS_MAX) parts, a part
/// that is null, half a surrogate pair, and data in UTF-16 or UTF-32 are errors.
///
/// # Example
/// ```
/// use zk_discovery::{ServiceInstance, UriSpec};
///
/// # fn main() -> Result<(), zk_discovery::InstanceError> {
/// let instance = ServiceInstance::new("web")
///     .with_id("web-7")
///     .with_address("10.0.0.7")
///     .with_port(8080)
///     .with_uri_spec(UriSpec::parse("{scheme}://{address}:{port}")?);
/// assert_eq!(instance.uri(), "http://10.0.0.7:8080");
/// let read = ServiceInstance::from_json(instance.to_json().as_bytes())?;
/// assert_eq!(read, instance);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ServiceInstance {
    name: String,
    id: String,
    address: Option<String>,
    port: Option<u16>,
    ssl_port: Option<u16>,
    /// Text of a JSON value other than null.
    payload: Option<String>,
    registration_time_utc: i64,
    service_type: ServiceType,
    uri_spec: Option<UriSpec>,
    enabled: bool,
}

impl ServiceInstance {
    /// Creates an instance of a service, with a random id, the current time as its registration
    /// time, and the type [`ServiceType::Dynamic`].
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            id: random_id::random_id(),
            registration_time_utc: now_utc_ms(),
            ..Self::empty()
        }
    }

    /// Sets the id. It names the node below the service, and is unique there.
    #[must_use]
    pub fn with_id(self, id: impl Into<String>) -> Self {
        Self { id: id.into(), ..self }
    }

    /// Sets the address: an IP address or a host name. Curator defaults to an address of this
    /// machine; here there is no default.
    #[must_use]
    pub fn with_address(self, address: impl Into<String>) -> Self {
        Self { address: Some(address.into()), ..self }
    }

    /// Sets the port.
    #[must_use]
    pub fn with_port(self, port: u16) -> Self {
        Self { port: Some(port), ..self }
    }

    /// Sets the port for TLS.
    #[must_use]
    pub fn with_ssl_port(self, port: u16) -> Self {
        Self { ssl_port: Some(port), ..self }
    }

    /// Sets the payload. [`Value::Null`] removes it.
    ///
    /// A Java reader takes an object with a field `@class` as an object of that class, and fails if
    /// it does not have the class. It reads other objects as maps, and fails on arrays.
    #[must_use]
    pub fn with_payload(self, payload: impl Into<Value>) -> Self {
        let payload = payload.into();
        let payload = (!payload.is_null()).then(|| payload.to_string());
        Self { payload, ..self }
    }

    /// Sets the payload to a JSON text, which is kept as it is.
    ///
    /// # Errors
    /// [`InstanceError::Json`] if the text is not one JSON value.
    pub fn with_payload_json(self, text: &str) -> Result<Self, InstanceError> {
        Ok(Self { payload: json::value_text(text)?, ..self })
    }

    /// Sets the time of the registration in milliseconds since 1970.
    #[must_use]
    pub fn with_registration_time_utc(self, ms: i64) -> Self {
        Self { registration_time_utc: ms, ..self }
    }

    /// Sets the type, which decides how long the node exists.
    #[must_use]
    pub fn with_service_type(self, service_type: ServiceType) -> Self {
        Self { service_type, ..self }
    }

    /// Sets the pattern of the instance's URI.
    #[must_use]
    pub fn with_uri_spec(self, uri_spec: UriSpec) -> Self {
        Self { uri_spec: Some(uri_spec), ..self }
    }

    /// Disables the instance. A [`Provider`](crate::Provider) does not return it.
    #[must_use]
    pub fn disabled(self) -> Self {
        Self { enabled: false, ..self }
    }

    /// Enables the instance again. A new instance is enabled.
    #[must_use]
    pub fn enabled(self) -> Self {
        Self { enabled: true, ..self }
    }

    /// Reads an instance from the data of a node.
    ///
    /// Unknown fields are ignored, and missing fields have Curator's defaults.
    ///
    /// # Errors
    /// Returns an error if the data is not a JSON object, or has an unexpected value in a field.
    pub fn from_json(data: &[u8]) -> Result<Self, InstanceError> {
        json::read(data)
    }

    /// Returns the data of the instance's node.
    #[must_use]
    pub fn to_json(&self) -> String {
        json::write(self)
    }

    /// Returns the name of the service.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the address, if there is one.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// Returns the port, if there is one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the port for TLS, if there is one.
    #[must_use]
    pub fn ssl_port(&self) -> Option<u16> {
        self.ssl_port
    }

    /// Returns the payload as JSON text, exactly as its writer sent it. `None` for null.
    #[must_use]
    pub fn payload_json(&self) -> Option<&str> {
        self.payload.as_deref()
    }

    /// Returns the payload as a value. Null if there is none, or if it is nested deeper than 127
    /// levels.
    ///
    /// Each call parses the text. A number that does not fit into 64 bits is rounded; see
    /// [`payload_json`](Self::payload_json).
    #[must_use]
    pub fn payload(&self) -> Value {
        let parse = |text: &str| serde_json::from_str(text).ok();
        self.payload_json().and_then(parse).unwrap_or_default()
    }

    /// Returns the time of the registration in milliseconds since 1970, by its writer's clock.
    #[must_use]
    pub fn registration_time_utc(&self) -> i64 {
        self.registration_time_utc
    }

    /// Returns the type.
    #[must_use]
    pub fn service_type(&self) -> ServiceType {
        self.service_type
    }

    /// Returns the pattern of the URI, if there is one.
    #[must_use]
    pub fn uri_spec(&self) -> Option<&UriSpec> {
        self.uri_spec.as_ref()
    }

    /// Returns false if the instance is registered, but not to be used.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Returns the URI: the pattern with the fields of this instance. Empty without a pattern.
    #[must_use]
    pub fn uri(&self) -> String {
        self.uri_spec().map_or_else(String::new, |spec| spec.build(self))
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity {
            id: self.id.clone(),
            address: self.address.clone(),
            ports: (self.port, self.ssl_port),
            registration_time_utc: self.registration_time_utc,
        }
    }

    /// Returns Curator's defaults.
    fn empty() -> Self {
        Self {
            name: String::new(),
            id: String::new(),
            address: None,
            port: None,
            ssl_port: None,
            payload: None,
            registration_time_utc: 0,
            service_type: ServiceType::Dynamic,
            uri_spec: None,
            enabled: true,
        }
    }
}

/// Identity of a registration. It stays the same in updates of the payload, and changes when the
/// instance restarts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    id: String,
    address: Option<String>,
    ports: (Option<u16>, Option<u16>),
    registration_time_utc: i64,
}

/// Prints the JSON of the instance.
impl fmt::Debug for ServiceInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceInstance {}", self.to_json())
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the registration time is a wall clock time for people"
)]
fn now_utc_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
