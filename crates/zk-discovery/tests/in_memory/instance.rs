//! The JSON of instances, with texts that Curator 5.4 has written.

use serde_json::json;
use zk_discovery::limits::URI_PARTS_MAX;
use zk_discovery::{InstanceError, ServiceInstance, ServiceType, UriPart, UriSpec};

use crate::web;

/// The smallest instance that Curator writes.
const BARE: &str = concat!(
    r#"{"name":"web","id":"id-1","address":"10.0.0.7","port":null,"sslPort":null,"#,
    r#""payload":null,"registrationTimeUTC":1700000000123,"serviceType":"DYNAMIC","#,
    r#""uriSpec":null}"#,
);

const FULL: &str = concat!(
    r#"{"name":"we\"b\\ü\u0001/\n","id":"id-1","address":"10.0.0.7","port":8080,"#,
    r#""sslPort":8443,"payload":"text","registrationTimeUTC":1700000000123,"#,
    r#""serviceType":"PERMANENT","uriSpec":{"parts":[{"value":"scheme","#,
    r#""variable":true},{"value":"://","variable":false},{"value":"address","#,
    r#""variable":true},{"value":":","variable":false},{"value":"port","#,
    r#""variable":true},{"value":"/a","variable":false},{"value":"[","variable":true},"#,
    r#"{"value":"b","variable":false},{"value":"]","variable":true}]}}"#,
);

const WITH_CLASS: &str = concat!(
    r#"{"name":"web","id":"id-1","address":"10.0.0.7","port":8080,"sslPort":null,"#,
    r#""payload":{"@class":"Zone","zone":"eu","weight":7,"metadata":{"k":"v"}},"#,
    r#""registrationTimeUTC":1700000000123,"serviceType":"STATIC","uriSpec":null}"#,
);

fn read(text: &str) -> Result<ServiceInstance, InstanceError> {
    ServiceInstance::from_json(text.as_bytes())
}

fn bare() -> ServiceInstance {
    ServiceInstance::new("web")
        .with_id("id-1")
        .with_address("10.0.0.7")
        .with_registration_time_utc(1_700_000_000_123)
}

#[test]
fn instance_is_written_as_by_curator() {
    assert_eq!(bare().to_json(), BARE);
    let spec = UriSpec::parse("{scheme}://{address}:{port}/a{[}b{]}").unwrap();
    let full = ServiceInstance::new("we\"b\\ü\u{1}/\n")
        .with_id("id-1")
        .with_address("10.0.0.7")
        .with_port(8080)
        .with_ssl_port(8443)
        .with_payload("text")
        .with_registration_time_utc(1_700_000_000_123)
        .with_service_type(ServiceType::Permanent)
        .with_uri_spec(spec);
    assert_eq!(full.to_json(), FULL);
    assert_eq!(full.uri(), "https://10.0.0.7:8080/a{b}");
}

#[test]
fn instance_of_curator_is_read_and_written_unchanged() {
    for text in [BARE, FULL, WITH_CLASS] {
        assert_eq!(read(text).unwrap().to_json(), text);
    }
    let bare = read(BARE).unwrap();
    assert_eq!((bare.port(), bare.payload(), bare.uri()), (None, json!(null), String::new()));
    let full = read(FULL).unwrap();
    assert_eq!((full.port(), full.ssl_port()), (Some(8080), Some(8443)));
    assert_eq!((full.service_type(), full.payload()), (ServiceType::Permanent, json!("text")));
}

/// Curator omits `enabled` by default, because versions before 3.2 reject it (CURATOR-275).
#[test]
fn enabled_is_written_only_if_it_is_false() {
    let disabled = bare().disabled().to_json();
    assert_eq!(disabled, BARE.replace("null}", "null,\"enabled\":false}"));
    assert!(!read(&disabled).unwrap().is_enabled());
    assert!(read(&BARE.replace("null}", "null,\"enabled\":true}")).unwrap().is_enabled());
    assert!(read(BARE).unwrap().is_enabled());
}

#[test]
fn missing_fields_have_curators_defaults() {
    let empty = read("{}").unwrap();
    assert_eq!((empty.name(), empty.id(), empty.address()), ("", "", None));
    assert_eq!((empty.registration_time_utc(), empty.is_enabled()), (0, true));
    assert_eq!(empty.service_type(), ServiceType::Dynamic);
    let nulls = r#"{"name":null,"id":null,"serviceType":null,"registrationTimeUTC":null}"#;
    assert_eq!(read(nulls).unwrap(), empty);
    assert_eq!(read(r#"{"uriSpec":{}}"#).unwrap().uri_spec().unwrap().parts(), []);
}

#[test]
fn unknown_fields_are_ignored() {
    let text = BARE.replace("{\"name\"", r#"{"zone":{"a":[1,{"b":null}]},"weight":1e400,"name""#);
    assert_eq!(read(&text).unwrap(), bare());
}

/// Jackson, which Curator uses, converts strings to numbers and flags.
#[test]
fn numbers_and_flags_are_read_from_strings() {
    let text =
        r#"{"name":12,"port":"80","sslPort":"","registrationTimeUTC":"7","enabled":"false"}"#;
    let instance = read(text).unwrap();
    assert_eq!((instance.name(), instance.port(), instance.ssl_port()), ("12", Some(80), None));
    assert_eq!((instance.registration_time_utc(), instance.is_enabled()), (7, false));
}

/// Curator 5.4 has read each of these texts, with Jackson 2.14, as it is expected here.
#[test]
fn values_are_converted_as_by_jackson() {
    let field = |name: &str, value: &str| read(&format!("{{\"{name}\":{value}}}")).unwrap();
    for (value, port) in [
        ("8080.0", Some(8080)),
        ("8080.9", Some(8080)),
        ("8.08e3", Some(8080)),
        ("-0.5", Some(0)),
        ("\" +80 \"", Some(80)),
        ("\"080\"", Some(80)),
        ("\" \"", None),
        ("\"null\"", None),
    ] {
        assert_eq!(field("port", value).port(), port, "{value}");
    }
    assert_eq!(field("registrationTimeUTC", "-1.9").registration_time_utc(), -1);
    for value in ["1", "2", "-1", "99999999999999999999", "\"True\"", "\" TRUE \""] {
        assert!(field("enabled", value).is_enabled(), "{value}");
    }
    for value in ["0", "-0", "null", "\"\"", "\"null\"", "\"False\"", "\" FALSE \""] {
        assert!(!field("enabled", value).is_enabled(), "{value}");
    }
    for (value, service_type) in [
        ("\" STATIC \"", ServiceType::Static),
        ("0", ServiceType::Dynamic),
        ("\"01\"", ServiceType::Static),
        ("2", ServiceType::Permanent),
        ("3", ServiceType::DynamicSequential),
    ] {
        assert_eq!(field("serviceType", value).service_type(), service_type, "{value}");
    }
    for text in ["\u{feff}{\"port\":1}", "{\"port\":1} {}", "{\"port\":1}x"] {
        assert_eq!(read(text).unwrap().port(), Some(1), "{text}");
    }
    assert!(read("\u{feff}\u{feff}{}").is_err());
}

#[test]
fn uri_spec_is_read_in_each_form_that_jackson_reads() {
    let parts = |value: &str| {
        let instance = read(&format!("{{\"uriSpec\":{value}}}")).unwrap();
        instance.uri_spec().unwrap().parts().to_vec()
    };
    let (variable, literal) = (UriPart::variable, UriPart::literal);
    assert_eq!(parts("\"{scheme}://x\""), [variable("scheme"), literal("://x")]);
    for none in ["\"\"", "{}", "{\"parts\":null}", "{\"x\":1}"] {
        assert_eq!(parts(none), [], "{none}");
    }
    let converted =
        r#"{"parts":[{"value":1.50,"variable":1},{"value":true,"variable":"True"},{"x":1}]}"#;
    assert_eq!(parts(converted), [variable("1.50"), variable("true"), literal("")]);
}

#[test]
fn uri_spec_with_too_many_parts_is_rejected() {
    let read_parts = |count: usize| {
        let parts = vec!["{\"value\":\"name\",\"variable\":true}"; count].join(",");
        read(&format!("{{\"uriSpec\":{{\"parts\":[{parts}]}}}}"))
    };
    assert!(read_parts(URI_PARTS_MAX).is_ok());
    let error = read_parts(URI_PARTS_MAX + 1).unwrap_err();
    assert!(error.to_string().contains(&format!("at most {URI_PARTS_MAX} parts")), "{error}");
    let pattern = format!("{{\"uriSpec\":\"{}\"}}", "{name}".repeat(URI_PARTS_MAX + 1));
    assert!(read(&pattern).is_err());
}

#[test]
fn payload_stays_as_its_writer_sent_it() {
    let payload = r#"{ "@class" : "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance",
        "id":"app-1", "name":"app","metadata":{"z":1.10,"a":12345678901234567890123} }"#;
    let text = BARE.replace("\"payload\":null", &format!("\"payload\": {payload} "));
    let instance = read(&text).unwrap();
    assert_eq!(instance.payload_json(), Some(payload));
    assert_eq!(instance.payload()["id"], "app-1");
    assert!(instance.to_json().contains(payload));
    let other = bare().with_payload_json(payload).unwrap();
    assert_eq!(other, instance);
    assert_eq!(
        bare().with_payload(json!({"b": [1, null]})).payload_json(),
        Some("{\"b\":[1,null]}")
    );
    assert_eq!(other.with_payload(json!(null)).to_json(), BARE);
    assert!(bare().with_payload_json("{}, \"x\":1").is_err());
}

#[test]
fn data_that_is_no_instance_is_rejected() {
    for text in ["", "null", "[]", "7", "{", "x{}", "\"name\"", "{\"name\":\"a\"", "\u{7f}\u{1}"] {
        let error = read(text).unwrap_err();
        assert!(matches!(error, InstanceError::Json { .. }), "{text}: {error}");
    }
    assert!(ServiceInstance::from_json(b"{\"name\":\"\xff\"}").is_err());
    let deep = format!("{{\"payload\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    drop(read(&deep)); // must not exhaust the stack
}

#[test]
fn damaged_json_is_rejected_or_read_consistently() {
    let text = FULL.as_bytes();
    let mut accepted = 0;
    for at in 0..text.len() {
        for replacement in [&b""[..], b"\"", b"{", b"}", b"0", b"\\", b"\xff", b"\0", b"null,"] {
            let damaged = [&text[..at], replacement, &text[at + 1..]].concat();
            let Ok(instance) = ServiceInstance::from_json(&damaged) else { continue };
            accepted += 1;
            let written = instance.to_json();
            let again = ServiceInstance::from_json(written.as_bytes()).unwrap();
            assert_eq!((again.to_json(), &again), (written, &instance));
        }
        assert!(ServiceInstance::from_json(&text[..at]).is_err());
    }
    assert!(accepted > 500, "{accepted}");
}

#[test]
fn invalid_field_is_named_in_the_error() {
    for (field, value) in [
        ("name", "{}"),
        ("id", "[1]"),
        ("port", "65536"),
        ("port", "-1"),
        ("sslPort", "\"x\""),
        ("port", "true"),
        ("registrationTimeUTC", "1e30"),
        ("serviceType", "\"FOO\""),
        ("port", "1e30"),
        ("port", "\"8080.0\""),
        ("serviceType", "\"\""),
        ("serviceType", "\"dynamic\""),
        ("serviceType", "4"),
        ("serviceType", "1.0"),
        ("uriSpec", "\"{scheme\""),
        ("uriSpec", "[]"),
        ("uriSpec", r#"{"parts":"x"}"#),
        ("enabled", "\"perhaps\""),
        ("enabled", "\"1\""),
        ("enabled", "1.0"),
    ] {
        let error = read(&format!("{{\"{field}\":{value}}}")).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(field) && message.contains(value), "{message}");
    }
    let long = read(&format!("{{\"port\":\"{}\"}}", "x".repeat(100_000))).unwrap_err();
    assert!(long.to_string().len() < 200);
    let text = read(&format!("\"{}\"", "x".repeat(100_000))).unwrap_err().to_string();
    assert!(text.len() < 300 && text.contains("column"), "{text}");
}

#[test]
fn new_instances_have_unique_ids_and_a_time() {
    let (one, other) = (ServiceInstance::new("web"), ServiceInstance::new("web"));
    assert_ne!(one.id(), other.id());
    assert!(one.registration_time_utc() > 1_700_000_000_000);
    assert_eq!((one.service_type(), one.is_enabled()), (ServiceType::Dynamic, true));
}

/// The cases of Curator's `TestUriSpec`.
#[test]
fn uri_spec_is_parsed_as_by_curator() {
    let parts = |spec| UriSpec::parse(spec).unwrap().parts().to_vec();
    let (field, text) = (UriPart::variable, UriPart::literal);
    assert_eq!(
        parts("{one}two-three-{[}four{]}-five{six}"),
        [
            field("one"),
            text("two-three-"),
            field("["),
            text("four"),
            field("]"),
            text("-five"),
            field("six")
        ]
    );
    assert_eq!(parts("{ a }{b}c"), [field("a"), field("b"), text("c")]);
    assert_eq!(parts("{}a"), [text("a")]);
    assert_eq!(parts(""), []);
    for unmatched in ["{", "}", "a{b", "a}b", "{a{b}}", "{a}}", "{{a}"] {
        let error = UriSpec::parse(unmatched).unwrap_err();
        assert!(matches!(error, InstanceError::UriSpec { .. }), "{unmatched}");
    }
    let spec = "{scheme}://{address}/{[}x";
    assert_eq!(UriSpec::parse(spec).unwrap().to_string(), spec);
}

#[test]
fn uri_has_the_fields_of_the_instance() {
    let spec =
        "{scheme}://{address}:{port}:{ssl-port}/{name}/{id}/{registration-time-utc}/{service-type}";
    let spec = UriSpec::parse(spec).unwrap();
    let instance = ServiceInstance::new("foo")
        .with_id("bar")
        .with_address("1.2.3.4")
        .with_port(5)
        .with_registration_time_utc(789)
        .with_service_type(ServiceType::DynamicSequential);
    assert_eq!(spec.build(&instance), "http://1.2.3.4:5:/foo/bar/789/dynamic_sequential");
    let instance = instance.with_ssl_port(6);
    let test = |field: &str| (field == "scheme").then(|| "test".to_owned());
    assert_eq!(
        spec.build_with(&instance, test),
        "test://1.2.3.4:5:6/foo/bar/789/dynamic_sequential"
    );
    assert_eq!(UriSpec::parse("{unknown}-").unwrap().build(&web("a")), "-");
}
