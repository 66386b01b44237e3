//! The JSON of an instance, as Curator's `JsonInstanceSerializer` reads and writes it.
//!
//! Jackson, which Curator uses, also reads numbers and flags from strings.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::limits::MESSAGE_LEN_MAX;

use super::{InstanceError, ServiceInstance, ServiceType, UriPart, UriSpec};

/// Fields of an object by their names, each as its text. Of equal names, the last one counts.
type Fields = BTreeMap<String, Box<RawValue>>;

pub(super) fn read(data: &[u8]) -> Result<ServiceInstance, InstanceError> {
    let fields: Fields = serde_json::from_slice(data).map_err(invalid)?;
    let mut instance = ServiceInstance::empty();
    for (name, raw) in &fields {
        let text = raw.get();
        match &**name {
            "name" => instance.name = string("name", text)?.unwrap_or_default(),
            "id" => instance.id = string("id", text)?.unwrap_or_default(),
            "address" => instance.address = string("address", text)?,
            "port" => instance.port = port("port", text)?,
            "sslPort" => instance.ssl_port = port("sslPort", text)?,
            "payload" => instance.payload = non_null(text),
            "registrationTimeUTC" => {
                let ms = number("registrationTimeUTC", text)?;
                instance.registration_time_utc = ms.unwrap_or_default();
            }
            "serviceType" => instance.service_type = service_type(text)?,
            "uriSpec" => instance.uri_spec = uri_spec(text)?,
            "enabled" => instance.enabled = flag("enabled", text)?,
            _ => {}
        }
    }
    Ok(instance)
}

pub(super) fn write(instance: &ServiceInstance) -> String {
    let text = |value: &str| Value::from(value).to_string();
    let port = |port: Option<u16>| port.map_or_else(null, |port| port.to_string());
    let uri_spec = instance.uri_spec.as_ref().map_or_else(null, write_uri_spec);
    let mut fields = vec![
        ("name", text(&instance.name)),
        ("id", text(&instance.id)),
        ("address", instance.address().map_or_else(null, text)),
        ("port", port(instance.port)),
        ("sslPort", port(instance.ssl_port)),
        ("payload", instance.payload.clone().unwrap_or_else(null)),
        ("registrationTimeUTC", instance.registration_time_utc.to_string()),
        ("serviceType", text(instance.service_type.as_str())),
        ("uriSpec", uri_spec),
    ];
    if !instance.enabled {
        fields.push(("enabled", "false".into()));
    }
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// Returns the text of one JSON value, or `None` if it is null.
pub(super) fn value_text(text: &str) -> Result<Option<String>, InstanceError> {
    let raw: Box<RawValue> = serde_json::from_str(text).map_err(invalid)?;
    Ok(non_null(raw.get()))
}

fn write_uri_spec(spec: &UriSpec) -> String {
    let part = |part: &UriPart| {
        let value = Value::from(part.text());
        format!("{{\"value\":{value},\"variable\":{}}}", part.is_variable())
    };
    let parts: Vec<String> = spec.parts().iter().map(part).collect();
    format!("{{\"parts\":[{}]}}", parts.join(","))
}

fn uri_spec(text: &str) -> Result<Option<UriSpec>, InstanceError> {
    let invalid = || InstanceError::field("uriSpec", text, "an object with an array `parts`");
    let value = value("uriSpec", text)?;
    let parts = match &value {
        Value::Null => return Ok(None),
        Value::Object(fields) => fields.get("parts").unwrap_or(&Value::Null),
        _ => return Err(invalid()),
    };
    let parts = match parts {
        Value::Null => &Vec::new(),
        Value::Array(parts) => parts,
        _ => return Err(invalid()),
    };
    let part = |part: &Value| {
        let fields = part.as_object()?;
        let text = fields.get("value").map_or(Some(""), Value::as_str)?;
        let is_variable = fields.get("variable").map_or(Some(false), Value::as_bool)?;
        Some(if is_variable { UriPart::variable(text) } else { UriPart::literal(text) })
    };
    let parts: Option<Vec<UriPart>> = parts.iter().map(part).collect();
    Ok(Some(UriSpec::new(parts.ok_or_else(invalid)?)))
}

fn service_type(text: &str) -> Result<ServiceType, InstanceError> {
    let expected = "a service type of Curator";
    let Some(name) = string("serviceType", text)? else { return Ok(ServiceType::default()) };
    ServiceType::from_name(&name).ok_or_else(|| InstanceError::field("serviceType", text, expected))
}

fn string(field: &'static str, text: &str) -> Result<Option<String>, InstanceError> {
    match value(field, text)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        Value::Bool(_) | Value::Number(_) => Ok(Some(text.to_owned())),
        _ => Err(InstanceError::field(field, text, "a string")),
    }
}

fn port(field: &'static str, text: &str) -> Result<Option<u16>, InstanceError> {
    let is_no_port = |_| InstanceError::field(field, text, "a port from 0 to 65535");
    number(field, text)?.map(u16::try_from).transpose().map_err(is_no_port)
}

fn number(field: &'static str, text: &str) -> Result<Option<i64>, InstanceError> {
    let number = match value(field, text)? {
        Value::Null => return Ok(None),
        Value::String(text) if text.trim().is_empty() => return Ok(None),
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_i64(),
        _ => None,
    };
    number.map(Some).ok_or_else(|| InstanceError::field(field, text, "an integer"))
}

fn flag(field: &'static str, text: &str) -> Result<bool, InstanceError> {
    match value(field, text)? {
        Value::Null => Ok(false), // the default of Java's boolean, and not that of the field
        Value::Bool(flag) => Ok(flag),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        _ => Err(InstanceError::field(field, text, "true or false")),
    }
}

fn value(field: &'static str, text: &str) -> Result<Value, InstanceError> {
    serde_json::from_str(text).map_err(|_| InstanceError::field(field, text, "valid JSON"))
}

fn non_null(text: &str) -> Option<String> {
    (text != "null").then(|| text.to_owned())
}

fn null() -> String {
    "null".into()
}

/// Returns the error with a message of limited length: for a value of a wrong type, it has the whole
/// value.
fn invalid(error: serde_json::Error) -> InstanceError {
    let mut message = error.to_string();
    if message.chars().count() > MESSAGE_LEN_MAX {
        let end = format!("… at line {} column {}", error.line(), error.column());
        message = message.chars().take(MESSAGE_LEN_MAX).chain(end.chars()).collect();
    }
    InstanceError::Json { message }
}
