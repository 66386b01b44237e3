//! subscribers
