//! Which bytes of a circular arena are in use.
//!
//! Positions are monotonic and count bytes; a position lies at `position % bytes` of the arena. `written` is behind
//! the last byte the producer has handed out, `consumed` behind the last byte the consumer no longer needs. What lies
//! between is in use, and is never more than the arena. A piece does not straddle the arena's end; bytes skipped for
//! that or for alignment are simply passed over by both cursors.
//!
//! The cursors say which bytes belong to whom. That the bytes of a piece are complete is said elsewhere, by
//! [`commit`](crate::commit): whoever sees a record committed also sees a `written` that covers its payload.
//!
//! The producer fills the arena, so it has it in memory. The consumer may be a host that copies only; see [`Word`].
//!
//! ```
//! use tensortap_sync::SharedU64;
//! use tensortap_sync::arena::{ArenaCursors, Consumer, Space};
//!
//! let (written, consumed) = (SharedU64::new(0), SharedU64::new(0));
//! let cursors = ArenaCursors { written: &written, consumed: &consumed };
//! let (mut space, mut host) = (Space::new(cursors, 256), Consumer::new(cursors, 256));
//! assert_eq!(space.reserve(100, 64), Some(0));
//! assert_eq!(space.reserve(120, 64), Some(128));
//! assert_eq!(space.reserve(64, 64), None);
//! assert_eq!(host.poll()?, 248);
//! host.release_to(100)?;
//! assert_eq!(space.reserve(64, 64), Some(256));
//! # Ok::<(), tensortap_sync::cursor::ReadError<core::convert::Infallible>>(())
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::convert::Infallible;
use core::marker::PhantomData;

use crate::atomic::Ordering;
use crate::cursor::{Follower, ReadError};
use crate::orderings::{ArenaOrderings, Proven};
use crate::{SharedU64, Word};

/// Where the two cursors lie, and how one side reaches them. They should be on different cache lines.
pub trait ArenaWords {
    /// Why a cursor cannot be reached.
    type Error;

    /// Position behind the last byte handed out. Written by the producer only.
    fn written(&self) -> impl Word<Error = Self::Error>;
    /// Position below which the producer may reuse every byte. Written by the consumer only.
    fn consumed(&self) -> impl Word<Error = Self::Error>;
}

impl<W: ArenaWords + ?Sized> ArenaWords for &W {
    type Error = W::Error;

    fn written(&self) -> impl Word<Error = W::Error> {
        (**self).written()
    }

    fn consumed(&self) -> impl Word<Error = W::Error> {
        (**self).consumed()
    }
}

/// Cursors in memory that this side has.
#[derive(Clone, Copy, Debug)]
pub struct ArenaCursors<'m> {
    /// The producer's.
    pub written: &'m SharedU64,
    /// The consumer's.
    pub consumed: &'m SharedU64,
}

impl ArenaWords for ArenaCursors<'_> {
    type Error = Infallible;

    #[inline]
    fn written(&self) -> impl Word<Error = Infallible> {
        self.written
    }

    #[inline]
    fn consumed(&self) -> impl Word<Error = Infallible> {
        self.consumed
    }
}

/// Where the next piece would begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextPiece {
    /// Its position.
    pub position: u64,
    /// Bytes from there to the arena's end.
    pub to_end: u64,
}

/// The producer's side.
#[derive(Debug)]
pub struct Space<W, O = Proven> {
    words: W,
    bytes: u64,
    written: u64,
    consumed: Follower,
    overwrites: bool,
    orderings: PhantomData<fn() -> O>,
}

impl<W: ArenaWords<Error = Infallible>> Space<W> {
    /// Takes the producing side of an arena of `bytes` (not zero), and goes on where its last holder left off.
    pub fn new(words: W, bytes: u64) -> Self {
        Self::with_orderings(words, bytes, false)
    }

    /// As [`new`](Self::new), but nobody consumes while it is written: new pieces overwrite the oldest.
    pub fn overwriting(words: W, bytes: u64) -> Self {
        Self::with_orderings(words, bytes, true)
    }
}

impl<W: ArenaWords<Error = Infallible>, O: ArenaOrderings> Space<W, O> {
    fn with_orderings(words: W, bytes: u64, overwrites: bool) -> Self {
        debug_assert!(bytes > 0, "an arena without bytes");
        // Relaxed: who had this side before has handed it over, or there was nobody.
        let Ok(written) = words.written().load(Ordering::Relaxed);
        // No further behind than the arena is long, whatever the other side's word says.
        let consumed = Follower::new(written.saturating_sub(bytes));
        Self { words, bytes, written, consumed, overwrites, orderings: PhantomData }
    }

    /// Where a piece with this alignment (a power of two that divides the arena) would begin. Hands out nothing.
    pub fn next_piece(&self, align: u64) -> NextPiece {
        debug_assert!(self.bytes.is_multiple_of(align), "alignment {align} does not divide the arena");
        let position = self.written.next_multiple_of(align);
        NextPiece { position, to_end: self.bytes - position % self.bytes }
    }

    /// Hands out `bytes` that do not straddle the arena's end, passing over what is left before it if need be.
    /// `None` when they do not fit now.
    pub fn reserve(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let position = self.fit(bytes, align)?;
        self.written = position + bytes;
        // Relaxed: the commit of the record that points here publishes it.
        let Ok(()) = self.words.written().store(self.written, Ordering::Relaxed);
        Some(position)
    }

    /// Whether [`reserve`](Self::reserve) would succeed. It still does later: space only grows.
    pub fn fits(&mut self, bytes: u64, align: u64) -> bool {
        self.fit(bytes, align).is_some()
    }

    /// Whether everything up to `end`, a position not handed out yet, could be handed out now.
    pub fn reaches(&mut self, end: u64) -> bool {
        self.overwrites || self.is_free(end) || (self.refresh() && self.is_free(end))
    }

    /// Bytes in use, skipped ones included, as far as known without looking.
    pub fn in_use_hint(&self) -> u64 {
        self.written - self.consumed.seen()
    }

    /// Bytes in use, skipped ones included.
    pub fn in_use(&mut self) -> u64 {
        self.refresh();
        self.in_use_hint()
    }

    /// Position behind the last byte handed out.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Stores this side's cursor again, in case somebody else has written over it.
    pub fn restate(&self) {
        let Ok(()) = self.words.written().store(self.written, Ordering::Relaxed);
    }

    /// Bytes of the arena.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn fit(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let place = self.next_piece(align);
        let passed_over = if bytes > place.to_end { place.to_end } else { 0 };
        let position = place.position + passed_over;
        (bytes <= self.bytes && self.reaches(position + bytes)).then_some(position)
    }

    fn is_free(&self, end: u64) -> bool {
        end - self.consumed.seen() <= self.bytes
    }

    /// Looks at the consumer's cursor; whether that moved. One that cannot be right is as good as one that stands.
    fn refresh(&mut self) -> bool {
        let before = self.consumed.seen();
        // Pairs with the store in `Consumer::release_to`: the bytes below were read.
        let Ok(consumed) = self.words.consumed().load(O::SEE_RELEASED);
        self.consumed.follow(consumed, self.written).is_ok_and(|now| now != before)
    }
}

/// The consumer's side.
#[derive(Debug)]
pub struct Consumer<W, O = Proven> {
    words: W,
    bytes: u64,
    consumed: u64,
    written: Follower,
    overwritten: bool,
    orderings: PhantomData<fn() -> O>,
}

impl<W: ArenaWords> Consumer<W> {
    /// Takes the consuming side of an arena of `bytes` whose cursors started at zero.
    pub fn new(words: W, bytes: u64) -> Self {
        Self::with_orderings(words, bytes, false)
    }

    /// As [`new`](Self::new), of an arena whose producer [overwrites](Space::overwriting): its cursor goes as far as
    /// it likes.
    pub fn overwritten(words: W, bytes: u64) -> Self {
        Self::with_orderings(words, bytes, true)
    }
}

impl<W: ArenaWords, O: ArenaOrderings> Consumer<W, O> {
    fn with_orderings(words: W, bytes: u64, overwritten: bool) -> Self {
        Self { words, bytes, consumed: 0, written: Follower::new(0), overwritten, orderings: PhantomData }
    }

    /// Position behind the last byte handed out. It covers the payload of every record seen committed before.
    ///
    /// # Errors
    /// When the cursor moved back, or so far that more than the arena would be in use, or cannot be reached.
    pub fn poll(&mut self) -> Result<u64, ReadError<W::Error>> {
        // Relaxed: the records seen committed before order it.
        let written = self.words.written().load(Ordering::Relaxed).map_err(ReadError::Unreachable)?;
        let most = if self.overwritten { u64::MAX } else { self.consumed + self.bytes };
        Ok(self.written.follow(written, most)?)
    }

    /// Gives back every byte below `position`, after the last reading of them.
    ///
    /// # Errors
    /// When `position` lies below what was given back before, or past the cursor seen last; when the cursor cannot be
    /// reached.
    pub fn release_to(&mut self, position: u64) -> Result<(), ReadError<W::Error>> {
        let consumed = Follower::new(self.consumed).follow(position, self.written.seen())?;
        // Pairs with the load in `Space::refresh`: the bytes below may be overwritten.
        self.words.consumed().store(consumed, O::RELEASE).map_err(ReadError::Unreachable)?;
        self.consumed = consumed;
        Ok(())
    }

    /// Position below which every byte was given back.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The producer's cursor when it was last looked at.
    pub fn seen(&self) -> u64 {
        self.written.seen()
    }

    /// Forgets how far the producer's cursor was seen, which a damaged word may have moved.
    pub fn forget_seen(&mut self) {
        self.written = Follower::new(self.consumed);
    }

    /// Stores this side's cursor again, in case somebody else has written over it.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub fn restate(&self) -> Result<(), W::Error> {
        self.words.consumed().store(self.consumed, O::RELEASE)
    }
}
