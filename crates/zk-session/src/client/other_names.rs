//! Names of operations in other clients. The warning of the compiler tells the name here.

use proto::Stat;

use super::{Client, NodeData, Pending};

impl Client {
    #[doc(hidden)]
    #[deprecated(note = "the method is `get_data`")]
    pub fn get(&self, path: &str) -> Pending<NodeData> {
        self.get_data(path)
    }

    #[doc(hidden)]
    #[deprecated(note = "the method is `set_data`")]
    pub fn set(&self, path: &str, data: impl AsRef<[u8]>, version: Option<i32>) -> Pending<Stat> {
        self.set_data(path, data, version)
    }

    #[doc(hidden)]
    #[deprecated(note = "the method is `exists`")]
    pub fn check_exists(&self, path: &str) -> Pending<Option<Stat>> {
        self.exists(path)
    }
}
