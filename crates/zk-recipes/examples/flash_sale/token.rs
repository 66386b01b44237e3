//! Fencing tokens as the workers send them and the shop stores them.

use std::fmt;
use std::str::FromStr;

use zk_recipes::FencingToken;

/// The two numbers of a [`FencingToken`], in the order of comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token {
    pub(crate) czxid: i64,
    /// Grows while the lock passes from buyer to buyer of one process.
    pub(crate) pass: u32,
}

impl From<FencingToken> for Token {
    fn from(token: FencingToken) -> Self {
        Self { czxid: token.czxid(), pass: token.pass() }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pass {
            0 => self.czxid.fmt(f),
            pass => write!(f, "{}:{pass}", self.czxid),
        }
    }
}

impl FromStr for Token {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (czxid, pass) = text.split_once(':').unwrap_or((text, "0"));
        Ok(Self { czxid: czxid.parse()?, pass: pass.parse()? })
    }
}
