//! What nearly every command uses.

pub(crate) use std::time::Duration;

pub(crate) use clap::Args as ClapArgs;
pub(crate) use serde_json::{Value, json};
pub(crate) use tokio::time::Instant;

pub(crate) use crate::failure::{Failure, Result};
pub(crate) use crate::output::Output;
pub(crate) use crate::sessions::{Session, Sessions, clock};
pub(crate) use crate::text::data_text;
