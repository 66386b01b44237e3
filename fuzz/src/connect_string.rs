//! Fuzz target for connect strings, against a parser by hand.
//!
//! Input: a connect string; invalid UTF-8 is replaced.

use zk_proto::validate_path;
use zk_session_core::{ConnectString, Host, Transport};

/// Parses a connect string.
pub fn run(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    match text.parse::<ConnectString>() {
        Ok(parsed) => {
            let (hosts, chroot) = model(text).expect("the model refuses it");
            assert_eq!((parsed.hosts(), parsed.chroot()), (&hosts[..], chroot));
            assert!(!parsed.hosts().is_empty());
            assert!(chroot.is_empty() || chroot != "/" && validate_path(chroot).is_ok());
            is_said_again(&parsed);
        }
        Err(error) => {
            assert_eq!(model(text), None, "{error}");
            assert!(error.to_string().starts_with("connect string: "));
        }
    }
}

/// Checks that a parsed string, printed in full, parses to the same value.
fn is_said_again(parsed: &ConnectString) {
    let hosts: Vec<String> = parsed.hosts().iter().map(ToString::to_string).collect();
    let again = format!("{}{}", hosts.join(","), parsed.chroot());
    assert_eq!(again.parse::<ConnectString>().as_ref(), Ok(parsed), "{again:?}");
}

fn model(text: &str) -> Option<(Vec<Host>, &str)> {
    let mut hosts = Vec::new();
    let mut rest = text;
    let chroot = loop {
        rest = rest.trim_start();
        let mut transport = Transport::Any;
        for (scheme, meant) in [("tls://", Transport::Tls), ("tcp://", Transport::Tcp)] {
            if transport == Transport::Any && rest.starts_with(scheme) {
                (transport, rest) = (meant, &rest[scheme.len()..]);
            }
        }
        let end = rest.find([',', '/']).unwrap_or(rest.len());
        let server = rest[..end].trim();
        if !server.is_empty() || transport != Transport::Any {
            hosts.push(host(server)?.with_transport(transport));
        }
        match rest[end..].strip_prefix(',') {
            Some(next) => rest = next,
            None => break &rest[end..],
        }
    };
    let chroot = if chroot.len() == 1 { "" } else { chroot };
    if !chroot.is_empty() && (chroot.contains(',') || validate_path(chroot).is_err()) {
        return None;
    }
    let open = hosts.iter().filter(|host| host.transport() == Transport::Any).count();
    let is_clear = open == 0 || open == hosts.len();
    (is_clear && !hosts.is_empty()).then_some((hosts, chroot))
}

fn host(server: &str) -> Option<Host> {
    let (name, rest) = match server.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => server.split_at(server.find(':').unwrap_or(server.len())),
    };
    let is_v6 = || {
        let mut parts = name.splitn(2, '%');
        let address = parts.next().unwrap_or_default();
        let is_zone_usual =
            parts.next().is_none_or(|zone| !zone.is_empty() && !zone.contains(unusual));
        address.parse::<std::net::Ipv6Addr>().is_ok() && is_zone_usual
    };
    let is_name = || !name.is_empty() && !name.contains(unusual);
    if !(if server.starts_with('[') { is_v6() } else { is_name() }) {
        return None;
    }
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => 2181,
        Some("") => 2181,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0)?
        }
        _ => return None,
    };
    Some(Host::new(name, port))
}

/// Returns whether a name or a zone must not contain `c`.
fn unusual(c: char) -> bool {
    !matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_')
}
