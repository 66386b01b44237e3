//! Pattern of a URI, as Curator's `UriSpec`.

use std::fmt;

use super::{InstanceError, ServiceInstance};

/// Pattern of a URI with the fields of an instance: Curator's `UriSpec`.
///
/// A field is a name in braces. These fields are known:
///
/// | field | value |
/// |---|---|
/// | `scheme` | `https` if the instance has a port for TLS, otherwise `http` |
/// | `name`, `id`, `address`, `port`, `ssl-port` | of the instance; empty if it has none |
/// | `registration-time-utc` | milliseconds since 1970 |
/// | `service-type` | in lower case, such as `dynamic_sequential` |
/// | `[` and `]` | a brace |
///
/// Other fields are empty unless [`build_with`](Self::build_with) gives them a value.
///
/// # Example
/// ```
/// use zk_discovery::{ServiceInstance, UriSpec};
///
/// # fn main() -> Result<(), zk_discovery::InstanceError> {
/// let spec = UriSpec::parse("{scheme}://{address}:{ssl-port}/{tenant}")?;
/// let instance = ServiceInstance::new("web").with_address("10.0.0.7").with_ssl_port(8443);
/// assert_eq!(spec.build(&instance), "https://10.0.0.7:8443/");
/// let uri = spec.build_with(&instance, |field| (field == "tenant").then(|| "acme".into()));
/// assert_eq!(uri, "https://10.0.0.7:8443/acme");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UriSpec {
    parts: Vec<UriPart>,
}

/// Part of a [`UriSpec`]: a field, or literal text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UriPart {
    text: String,
    is_variable: bool,
}

impl UriPart {
    /// Creates a field with the given name.
    #[must_use]
    pub fn variable(name: impl Into<String>) -> Self {
        Self { text: name.into(), is_variable: true }
    }

    /// Creates literal text.
    #[must_use]
    pub fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_variable: false }
    }

    /// Returns the name of the field, or the literal text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns true for a field.
    #[must_use]
    pub fn is_variable(&self) -> bool {
        self.is_variable
    }
}

impl UriSpec {
    /// Creates a pattern from its parts.
    #[must_use]
    pub fn new(parts: impl Into<Vec<UriPart>>) -> Self {
        Self { parts: parts.into() }
    }

    /// Parses a pattern, for example `{scheme}://{address}:{port}`. A field `{[}` or `{]}` is a
    /// literal brace.
    ///
    /// # Errors
    /// [`InstanceError::UriSpec`] if the braces do not match.
    pub fn parse(spec: &str) -> Result<Self, InstanceError> {
        let unmatched = || InstanceError::UriSpec { spec: spec.to_owned() };
        let mut parts = Vec::new();
        let mut rest = spec;
        while let Some(at) = rest.find(['{', '}']) {
            let (literal, braced) = rest.split_at(at);
            if !literal.is_empty() {
                parts.push(UriPart::literal(literal));
            }
            let inside = braced.strip_prefix('{').ok_or_else(unmatched)?;
            let (name, after) = inside.split_once('}').ok_or_else(unmatched)?;
            if name.contains('{') {
                return Err(unmatched());
            }
            if !name.is_empty() {
                parts.push(UriPart::variable(name.trim()));
            }
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(UriPart::literal(rest));
        }
        Ok(Self { parts })
    }

    /// Returns the parts.
    #[must_use]
    pub fn parts(&self) -> &[UriPart] {
        &self.parts
    }

    /// Returns the URI of an instance.
    #[must_use]
    pub fn build(&self, instance: &ServiceInstance) -> String {
        self.build_with(instance, |_| None)
    }

    /// Returns the URI of an instance, with values of the caller. They replace those of the
    /// instance.
    #[must_use]
    pub fn build_with(
        &self,
        instance: &ServiceInstance,
        value: impl Fn(&str) -> Option<String>,
    ) -> String {
        let mut uri = String::new();
        for part in &self.parts {
            if part.is_variable {
                uri += &value(&part.text).unwrap_or_else(|| field(instance, &part.text));
            } else {
                uri += &part.text;
            }
        }
        uri
    }
}

/// Prints the pattern as [`UriSpec::parse`] reads it.
impl fmt::Display for UriSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| {
            if part.is_variable { write!(f, "{{{}}}", part.text) } else { f.write_str(&part.text) }
        })
    }
}

fn field(instance: &ServiceInstance, name: &str) -> String {
    let port = |port: Option<u16>| port.map(|port| port.to_string()).unwrap_or_default();
    match name {
        "scheme" if instance.ssl_port().is_some() => "https".into(),
        "scheme" => "http".into(),
        "name" => instance.name().into(),
        "id" => instance.id().into(),
        "address" => instance.address().unwrap_or_default().into(),
        "port" => port(instance.port()),
        "ssl-port" => port(instance.ssl_port()),
        "registration-time-utc" => instance.registration_time_utc().to_string(),
        "service-type" => instance.service_type().as_str().to_ascii_lowercase(),
        "[" => "{".into(),
        "]" => "}".into(),
        _ => String::new(),
    }
}
