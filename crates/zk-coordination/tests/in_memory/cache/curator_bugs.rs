//! curator_bugs
