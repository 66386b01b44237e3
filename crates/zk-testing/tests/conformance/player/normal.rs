//! Normalized text of a server's frames, which is equal for two servers that behave alike.
//!
//! Sessions are numbered in the order in which the script sees them. Zxids count from the start of
//! the script; older ones are `old`. Times are only checked: every transaction has exactly one.

use std::collections::HashMap;

use proto::{ErrorCode, OpCode};

/// Meaning of the session ids, zxids and times of one server.
#[derive(Debug, Default)]
pub(crate) struct Normal {
    pub(crate) base_zxid: i64,
    sessions: HashMap<i64, usize>,
    /// Time of each transaction.
    times: HashMap<i64, i64>,
}

impl Normal {
    pub(crate) fn new(base_zxid: i64) -> Self {
        Self { base_zxid, ..Self::default() }
    }

    pub(crate) fn session(&mut self, id: i64) -> String {
        if id == 0 {
            return "0".to_owned();
        }
        let next = self.sessions.len() + 1;
        format!("s{}", self.sessions.entry(id).or_insert(next))
    }

    fn zxid(&self, zxid: i64) -> String {
        if zxid <= 0 {
            zxid.to_string()
        } else if zxid < self.base_zxid {
            "old".to_owned()
        } else {
            format!("+{}", zxid - self.base_zxid)
        }
    }

    fn time(&mut self, zxid: i64, time: i64) -> &'static str {
        if zxid < self.base_zxid {
            return if (time == 0) == (zxid == 0) { "" } else { "@odd" };
        }
        if *self.times.entry(zxid).or_insert(time) == time { "" } else { "@different" }
    }

    /// Formats a notification or a reply to `op`. Returns the text and the error code.
    pub(crate) fn frame(&mut self, op: i32, frame: &[u8]) -> (String, i32) {
        let mut cursor = Cursor(frame);
        let (xid, zxid, err) = (cursor.int(), cursor.long(), cursor.int());
        let (Some(xid), Some(zxid), Some(err)) = (xid, zxid, err) else {
            return (format!("a frame of {}", frame.escape_ascii()), 0);
        };
        let zxid = self.zxid(zxid);
        let mut text = if xid == -1 {
            let kind = match cursor.int() {
                Some(1) => "created",
                Some(2) => "deleted",
                Some(3) => "changed",
                Some(4) => "children",
                _ => "?",
            };
            let state = match cursor.int() {
                Some(3) => String::new(),
                state => format!(" state {state:?}"),
            };
            format!("event {kind} {}{state} zxid {zxid}", cursor.text())
        } else {
            // A failed multiRead still contains the results of the reads before the failure.
            let is_list = [OpCode::Multi.code(), OpCode::MultiRead.code()].contains(&op);
            let has_body = err == 0 || (is_list && !cursor.0.is_empty());
            let body = if has_body { self.body(op, &mut cursor) } else { None };
            let body = body.unwrap_or_default();
            format!("xid {xid} zxid {zxid} {} {body}", error(err))
        };
        if !cursor.0.is_empty() {
            text.push_str(&format!(" and then {}", cursor.0.escape_ascii()));
        }
        (text, err)
    }

    fn body(&mut self, op: i32, cursor: &mut Cursor<'_>) -> Option<String> {
        let op = OpCode::from_code(op)?;
        Some(match op {
            OpCode::Create | OpCode::Sync => cursor.text(),
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                format!("{} {}", cursor.text(), self.stat(cursor)?)
            }
            OpCode::Exists | OpCode::SetData | OpCode::SetAcl => self.stat(cursor)?,
            OpCode::GetData | OpCode::Reconfig => {
                format!("{} {}", cursor.text(), self.stat(cursor)?)
            }
            OpCode::GetAcl => format!("{} {}", cursor.pairs(true)?, self.stat(cursor)?),
            OpCode::GetChildren | OpCode::GetEphemerals => cursor.texts()?,
            OpCode::GetChildren2 => format!("{} {}", cursor.texts()?, self.stat(cursor)?),
            OpCode::GetAllChildrenNumber | OpCode::AddWatch => cursor.int()?.to_string(),
            OpCode::WhoAmI => cursor.pairs(false)?,
            OpCode::Sasl => cursor.text(),
            OpCode::Multi | OpCode::MultiRead => self.results(cursor)?,
            _ => return None,
        })
    }

    fn results(&mut self, cursor: &mut Cursor<'_>) -> Option<String> {
        let mut texts = Vec::new();
        loop {
            let (op, done, err) = (cursor.int()?, cursor.byte()?, cursor.int()?);
            if done != 0 {
                texts.push(format!("end {op} {done} {err}"));
                return Some(texts.join("; "));
            }
            let body = match op {
                -1 => error(cursor.int()?),
                _ => self.body(op, cursor).unwrap_or_default(),
            };
            texts.push(format!("{op} {done} {err} {body}"));
        }
    }

    fn stat(&mut self, cursor: &mut Cursor<'_>) -> Option<String> {
        let (czxid, mzxid) = (cursor.long()?, cursor.long()?);
        let (ctime, mtime) = (cursor.long()?, cursor.long()?);
        let (version, mut cversion, aversion) = (cursor.int()?, cursor.int()?, cursor.int()?);
        let owner = cursor.long()?;
        let (len, children, mut pzxid) = (cursor.int()?, cursor.int()?, cursor.long()?);
        // All scripts share the nodes that always exist, so the children of these nodes change.
        if czxid == 0 {
            (cversion, pzxid) = (0, 0);
        }
        let mut text = format!(
            "stat(c {}{} m {}{} p {}",
            self.zxid(czxid),
            self.time(czxid, ctime),
            self.zxid(mzxid),
            self.time(mzxid, mtime),
            self.zxid(pzxid),
        );
        let others = [("v", version), ("cv", cversion), ("av", aversion), ("len", len)];
        for (name, value) in others.into_iter().chain([("children", children)]) {
            if value != 0 {
                text.push_str(&format!(" {name} {value}"));
            }
        }
        if owner != 0 {
            text.push_str(&format!(" owner {}", self.session(owner)));
        }
        text.push(')');
        Some(text)
    }
}

fn error(code: i32) -> String {
    if code == 0 { "OK".to_owned() } else { ErrorCode(code).to_string() }
}

/// Reads fields from the front of a frame.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (chunk, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*chunk)
    }

    fn byte(&mut self) -> Option<u8> {
        self.chunk::<1>().map(|[byte]| byte)
    }

    fn int(&mut self) -> Option<i32> {
        self.chunk().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Option<i64> {
        self.chunk().map(i64::from_be_bytes)
    }

    /// Reads a buffer or a string. Returns other text if it is null or incomplete.
    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let len = self.int().ok_or("?")?;
        let len = usize::try_from(len).map_err(|_| format!("null({len})"))?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or("?")?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads a buffer or a string and returns printable text.
    fn text(&mut self) -> String {
        self.bytes().map_or_else(|other| other, |bytes| format!("\"{}\"", bytes.escape_ascii()))
    }

    fn texts(&mut self) -> Option<String> {
        let count = self.int()?;
        let texts: Vec<String> = (0..count).map(|_| self.text()).collect();
        Some(format!("{count}[{}]", texts.join(" ")))
    }

    /// Reads identities, with permissions in an ACL. Their order comes from a hash table, so they
    /// are sorted.
    fn pairs(&mut self, with_perms: bool) -> Option<String> {
        let count = self.int()?;
        let mut pairs = Vec::new();
        for _ in 0..count {
            let perms = if with_perms { format!("{} ", self.int()?) } else { String::new() };
            pairs.push(format!("{perms}{}:{}", self.text(), self.text()));
        }
        pairs.sort_unstable();
        Some(format!("{count}[{}]", pairs.join(", ")))
    }
}

/// Reads a reply to a connect request. Returns the text to compare, the session id and the
/// password.
pub(crate) fn connect_reply(normal: &mut Normal, frame: &[u8]) -> Option<(String, i64, Vec<u8>)> {
    let mut cursor = Cursor(frame);
    let (version, timeout, id) = (cursor.int()?, cursor.int()?, cursor.long()?);
    let password = cursor.bytes().ok()?;
    let is_null = password.iter().all(|byte| *byte == 0);
    let mut text = format!("session {} timeout {timeout}", normal.session(id));
    if (version, password.len(), is_null) != (0, 16, false) {
        let len = password.len();
        text.push_str(&format!(" version {version} password of {len} bytes, null {is_null}"));
    }
    text.push_str(&format!(" then \"{}\"", cursor.0.escape_ascii()));
    Some((text, id, password.to_vec()))
}

/// Returns the names in a reply to getChildren, in order.
pub(crate) fn names(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut cursor = Cursor(reply.get(16..).unwrap_or_default());
    let count = cursor.int().unwrap_or(0);
    let mut names: Vec<Vec<u8>> =
        (0..count).map_while(|_| cursor.bytes().ok()).map(<[u8]>::to_vec).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zxids_count_from_the_start_of_the_script() {
        let normal = Normal::new(100);
        let shown: Vec<String> = [-1, 0, 99, 100, 107].map(|zxid| normal.zxid(zxid)).into();
        assert_eq!(shown, ["-1", "0", "old", "+0", "+7"]);
    }

    #[test]
    fn different_times_of_one_transaction_are_marked() {
        let mut normal = Normal::new(100);
        assert_eq!(normal.time(101, 5), "");
        assert_eq!(normal.time(101, 5), "");
        assert_eq!(normal.time(101, 6), "@different");
    }
}
