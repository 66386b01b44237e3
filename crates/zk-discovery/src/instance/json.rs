//! The JSON of an instance, as Curator's `JsonInstanceSerializer` reads and writes it.
//!
//! Jackson, which Curator uses, converts numbers, flags and strings into each other. The rules here
//! are those of Jackson 2.14 with its default settings, as Curator 5.4 uses it.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::limits::{MESSAGE_LEN_MAX, URI_PARTS_MAX};

use super::{InstanceError, ServiceInstance, ServiceType, UriPart, UriSpec};

/// Fields of an object by their names, each as its text. Of equal names, the last one counts.
type Fields = BTreeMap<String, Box<RawValue>>;

/// The mark with which some editors begin a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(super) fn read(data: &[u8]) -> Result<ServiceInstance, InstanceError> {
    let fields = object(data.strip_prefix(BYTE_ORDER_MARK).unwrap_or(data))?;
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

/// Reads the object at the start of the data. Jackson ignores everything behind it.
fn object(data: &[u8]) -> Result<Fields, InstanceError> {
    let mut objects = serde_json::Deserializer::from_slice(data).into_iter::<Fields>();
    let empty = || InstanceError::Json { message: "there is no data".into() };
    objects.next().ok_or_else(empty)?.map_err(invalid)
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
    let invalid =
        || InstanceError::field("uriSpec", text, "a URI pattern, or an object with `parts`");
    let too_many = || InstanceError::field("uriSpec", text, "a pattern with at most 128 parts");
    let spec = if text.starts_with('"') {
        let pattern = string("uriSpec", text)?.unwrap_or_default();
        UriSpec::parse(&pattern).map_err(|_| invalid())?
    } else {
        let fields: Option<Fields> = serde_json::from_str(text).map_err(|_| invalid())?;
        let Some(fields) = fields else { return Ok(None) };
        let parts = fields.get("parts").map_or("null", |parts| parts.get());
        let parts: Option<Vec<&RawValue>> = serde_json::from_str(parts).map_err(|_| invalid())?;
        let parts = parts.unwrap_or_default();
        // Before the parts are parsed, which takes far more memory than their text.
        if parts.len() > URI_PARTS_MAX {
            return Err(too_many());
        }
        let part =
            |raw: &&RawValue| uri_part(&serde_json::from_str(raw.get()).map_err(|_| invalid())?);
        UriSpec::new(parts.iter().map(part).collect::<Result<Vec<_>, _>>()?)
    };
    if spec.parts().len() <= URI_PARTS_MAX { Ok(Some(spec)) } else { Err(too_many()) }
}

fn uri_part(fields: &Fields) -> Result<UriPart, InstanceError> {
    let text = |name| fields.get(name).map(|raw| raw.get());
    let value = text("value").map_or(Ok(None), |text| string("uriSpec", text))?.unwrap_or_default();
    let is_variable = text("variable").map_or(Ok(false), |text| flag("uriSpec", text))?;
    Ok(if is_variable { UriPart::variable(value) } else { UriPart::literal(value) })
}

/// Reads the name of a type, or its position in Curator's list, also from a string.
fn service_type(text: &str) -> Result<ServiceType, InstanceError> {
    let invalid = || InstanceError::field("serviceType", text, "a service type of Curator");
    let Some(name) = string("serviceType", text)? else { return Ok(ServiceType::default()) };
    let name = name.trim();
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let found = if is_number {
        name.parse().ok().and_then(ServiceType::from_position)
    } else {
        ServiceType::from_name(name)
    };
    found.ok_or_else(invalid)
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
        Value::String(text) if is_null_text(text.trim()) => return Ok(None),
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_i64().or_else(|| without_fraction(number.as_f64()?)),
        _ => None,
    };
    number.map(Some).ok_or_else(|| InstanceError::field(field, text, "an integer"))
}

/// Returns `None` if the number does not fit.
fn without_fraction(number: f64) -> Option<i64> {
    format!("{:.0}", number.trunc()).parse().ok()
}

fn flag(field: &'static str, text: &str) -> Result<bool, InstanceError> {
    match value(field, text)? {
        Value::Null => return Ok(false), // the default of Java's boolean, and not that of the field
        Value::Bool(flag) => return Ok(flag),
        Value::Number(_) if is_integer(text) => return Ok(text.trim_start_matches('-') != "0"),
        Value::String(text) => match text.trim() {
            "true" | "True" | "TRUE" => return Ok(true),
            "false" | "False" | "FALSE" => return Ok(false),
            text if is_null_text(text) => return Ok(false),
            _ => {}
        },
        _ => {}
    }
    Err(InstanceError::field(field, text, "true or false"))
}

/// Returns true for a string that Jackson takes for null where it needs a number or a flag.
fn is_null_text(text: &str) -> bool {
    text.is_empty() || text == "null"
}

fn is_integer(number: &str) -> bool {
    !number.contains(['.', 'e', 'E'])
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
