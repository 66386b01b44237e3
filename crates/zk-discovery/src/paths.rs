//! Paths of services and instances.

use zk_coordination::session::path::child;
use zk_coordination::session::validate_path;

use crate::DiscoveryError;

/// Returns the path of a service: the parent of its instances.
///
/// A name may have slashes, as in Curator. The names of services then have several levels.
pub(crate) fn service_path(base: &str, name: &str) -> Result<String, DiscoveryError> {
    let path = child(base, name);
    let is_name = !name.is_empty() && validate_path(&path).is_ok();
    is_name.then_some(path).ok_or_else(|| DiscoveryError::InvalidName { name: name.to_owned() })
}

/// Returns the path of an instance. A server appends a number to that of a sequential one.
pub(crate) fn instance_path(base: &str, name: &str, id: &str) -> Result<String, DiscoveryError> {
    let path = child(&service_path(base, name)?, id);
    let is_id = !id.is_empty() && !id.contains('/') && validate_path(&path).is_ok();
    is_id.then_some(path).ok_or_else(|| DiscoveryError::InvalidId { id: id.to_owned() })
}
