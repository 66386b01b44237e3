//! Nodes of ClickHouse Keeper that exist from the start (`KeeperContext.cpp`,
//! `initializeSystemNodes`). RaftKeeper has none.

use bytes::Bytes;

use super::version::Version;

/// Feature flags that are on by default (`KeeperFeatureFlag`), by their numbers.
const FLAGS_25_8: [usize; 4] = [0, 1, 2, 3];
const FLAGS_26_6: [usize; 8] = [0, 1, 2, 3, 6, 7, 8, 9];

/// Returns the paths and data of the nodes, parents first.
pub(super) fn of_keeper(version: Version) -> Vec<(&'static str, Bytes)> {
    let flags: &[usize] = match version {
        Version::Keeper25_8 => &FLAGS_25_8,
        Version::Keeper26_6 => &FLAGS_26_6,
        _ => return Vec::new(),
    };
    let mut bits = [0_u8; 2];
    for flag in flags {
        bits[flag / 8] |= 1 << (7 - flag % 8);
    }
    vec![
        ("/keeper", Bytes::new()),
        ("/keeper/api_version", Bytes::from_static(b"2")),
        ("/keeper/feature_flags", Bytes::copy_from_slice(&bits)),
    ]
}
