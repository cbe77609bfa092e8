//! The result of an edit.

/// An edited image.
pub(super) struct Done {
    pub(super) image: Vec<u8>,
    /// True if the program header table had to move: tools that rewrite files break it.
    pub(super) table_moved: bool,
}
