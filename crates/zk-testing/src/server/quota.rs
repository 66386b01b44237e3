//! Quotas: counted below every path that has one, and enforced if the settings say so.
//!
//! The limits of `/a` are the data of `/zookeeper/quota/a/zookeeper_limits`. The usage is the data
//! of `/zookeeper/quota/a/zookeeper_stats`. The format is `count=2,bytes=10`, and with hard limits
//! `count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=4`.

use bytes::Bytes;
use proto::ErrorCode;

use super::tree::{Tree, parent_of};

const ROOT: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// Numbers of a quota; -1 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    count: i64,
    bytes: i64,
    count_hard: i64,
    bytes_hard: i64,
}

/// Checks a change below a hard quota. `count` and `bytes` are the amounts that it adds.
pub(crate) fn check(tree: &Tree, path: &str, count: i64, bytes: i64) -> Result<(), ErrorCode> {
    let Some(prefix) = longest_prefix(tree, path) else { return Ok(()) };
    let Some(limits) = numbers(tree, &format!("{ROOT}{prefix}/{LIMITS}")) else { return Ok(()) };
    let Some(used) = numbers(tree, &format!("{ROOT}{prefix}/{STATS}")) else { return Ok(()) };
    let over = |limit: i64, value: i64| limit > -1 && value > limit;
    if (count > 0 && over(limits.count_hard, used.count + count))
        || (bytes != 0 && over(limits.bytes_hard, used.bytes + bytes))
    {
        return Err(ErrorCode::QUOTA_EXCEEDED);
    }
    Ok(())
}

/// Updates the quotas for a new node, which may itself define a quota.
pub(crate) fn created(tree: &mut Tree, path: &str, bytes: i64) {
    if let Some(prefix) = quota_of(path, LIMITS) {
        tree.quotas.insert(prefix.into());
    } else if let Some(prefix) = quota_of(path, STATS) {
        recount(tree, prefix, path);
    }
    add(tree, path, 1, bytes);
}

/// Updates the quotas for a deleted node.
pub(crate) fn deleted(tree: &mut Tree, path: &str, bytes: i64) {
    if let Some(prefix) = quota_of(path, LIMITS) {
        tree.quotas.remove(prefix);
    }
    add(tree, path, -1, -bytes);
}

/// Counts a change below a quota. The Stat of the stats node stays the same, and its watches do not
/// fire.
pub(crate) fn add(tree: &mut Tree, path: &str, count: i64, bytes: i64) {
    let Some(prefix) = longest_prefix(tree, path) else { return };
    let stats = format!("{ROOT}{prefix}/{STATS}");
    if let Some(mut used) = numbers(tree, &stats) {
        used.count += count;
        used.bytes += bytes;
        tree.replace_data(&stats, Some(text(used)));
    }
}

/// Returns the path whose quota node with this name is at `path`.
fn quota_of<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    let prefix = path.strip_prefix(ROOT)?.strip_suffix(name)?.strip_suffix('/')?;
    (!prefix.is_empty()).then_some(prefix)
}

/// Returns the longest path with a quota that contains `path`.
fn longest_prefix(tree: &Tree, path: &str) -> Option<String> {
    if tree.quotas.is_empty() {
        return None;
    }
    let mut at = path;
    while at != "/" {
        if tree.quotas.contains(at) {
            return Some(at.to_owned());
        }
        at = parent_of(at);
    }
    None
}

fn recount(tree: &mut Tree, prefix: &str, stats: &str) {
    let paths = if tree.contains(prefix) { tree.subtree(prefix) } else { Vec::new() };
    let lens = paths.iter().filter_map(|path| tree.node(path)).map(super::node::Node::data_len);
    let bytes = i64::try_from(lens.sum::<usize>()).unwrap_or(i64::MAX);
    let count = i64::try_from(paths.len()).unwrap_or(i64::MAX);
    let used = Numbers { count, bytes, count_hard: -1, bytes_hard: -1 };
    tree.replace_data(stats, Some(text(used)));
}

fn numbers(tree: &Tree, path: &str) -> Option<Numbers> {
    let data = tree.node(path)?.data()?;
    let mut numbers = Numbers { count: -1, bytes: -1, count_hard: -1, bytes_hard: -1 };
    for pair in std::str::from_utf8(data).ok()?.split([',', ';']) {
        let Some((key, value)) = pair.split_once('=') else { continue };
        let value = value.trim_end_matches('=').parse().unwrap_or(-1);
        match key {
            "count" => numbers.count = value,
            "bytes" => numbers.bytes = value,
            "countHardLimit" => numbers.count_hard = value,
            "byteHardLimit" => numbers.bytes_hard = value,
            _ => {}
        }
    }
    Some(numbers)
}

fn text(numbers: Numbers) -> Bytes {
    let mut text = format!("count={},bytes={}", numbers.count, numbers.bytes);
    if numbers.bytes_hard > -1 || numbers.count_hard > -1 {
        text.push('=');
    }
    if numbers.bytes_hard > -1 {
        text.push_str(&format!(";byteHardLimit={}", numbers.bytes_hard));
    }
    if numbers.count_hard > -1 {
        text.push_str(&format!(";countHardLimit={}", numbers.count_hard));
    }
    text.into()
}
