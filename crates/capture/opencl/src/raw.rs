//! Reading what the program or the driver passes by pointer.

use std::{
    ffi::{CStr, c_char, c_void},
    slice,
};

use crate::ffi::{Event, SUCCESS, Status};

/// The closure that asks the driver for a property with a `clGet…Info` function. [`value`], [`all`] and [`text_info`]
/// call it.
///
/// `info!(target, API(HANDLE, WHAT))`. The handles must live: they are the program's, or the layer's own.
macro_rules! info {
    ($target:expr, $api:ident($($arg:expr),+)) => {
        move |room: usize, value: *mut std::ffi::c_void, size: *mut usize| match $target.$api {
            // SAFETY: the handles live, and `value` and `size` point to memory of the caller.
            Some(ask) => unsafe { ask($($arg,)+ room, value, size) },
            None => $crate::ffi::INVALID_OPERATION,
        }
    };
}
pub(crate) use info;

/// The items of a list.
///
/// # Safety
/// `items` is null, or points to `count` items that live during 'a.
pub unsafe fn list<'a, T>(count: u32, items: *const T) -> &'a [T] {
    if items.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's guarantee.
    unsafe { slice::from_raw_parts(items, count as usize) }
}

/// A wait list in the form that drivers expect: an empty one is null.
pub fn wait_list(events: &[Event]) -> (u32, *const Event) {
    let start = if events.is_empty() { std::ptr::null() } else { events.as_ptr() };
    (u32::try_from(events.len()).unwrap_or(u32::MAX), start)
}

/// Up to three sizes of a launch. Dimensions that it does not have get the value `rest`.
///
/// # Safety
/// `sizes` is null, or points to `count` sizes.
pub unsafe fn sizes(count: u32, sizes: *const usize, rest: u64) -> Option<[u64; 3]> {
    if sizes.is_null() {
        return None;
    }
    let mut all = [rest; 3];
    // SAFETY: the caller's guarantee.
    let given = unsafe { list(count.min(3), sizes) };
    for (size, &given) in all.iter_mut().zip(given) {
        *size = given as u64;
    }
    Some(all)
}

/// Three sizes. None if the pointer is null.
///
/// # Safety
/// `sizes` is null, or points to three sizes.
pub unsafe fn triple(sizes: *const usize) -> Option<[u64; 3]> {
    // SAFETY: the caller's guarantee.
    unsafe { self::sizes(3, sizes, 0) }
}

/// A text of the program. Empty if the pointer is null.
///
/// # Safety
/// `text` is null or ends with a zero byte.
pub unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's guarantee.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Bytes of the program. None if the pointer is null.
///
/// # Safety
/// `start` is null, or points to `count` bytes.
pub unsafe fn bytes(start: *const c_void, count: usize) -> Option<Box<[u8]>> {
    if start.is_null() {
        return None;
    }
    // SAFETY: the caller's guarantee.
    Some(unsafe { slice::from_raw_parts(start.cast::<u8>(), count) }.into())
}

/// A property of fixed size. `ask` is a closure of [`info!`]. None if the driver reports no such property.
pub fn value<T: Copy + Default>(ask: impl FnOnce(usize, *mut c_void, *mut usize) -> Status) -> Option<T> {
    let mut value = T::default();
    let mut written = 0;
    let status = ask(size_of::<T>(), (&raw mut value).cast(), &raw mut written);
    (status == SUCCESS && written == size_of::<T>()).then_some(value)
}

/// A property of any size: asks for the size first. None if the driver reports no such property, or if it has more
/// than `limit` bytes.
pub fn all(limit: usize, mut ask: impl FnMut(usize, *mut c_void, *mut usize) -> Status) -> Option<Vec<u8>> {
    let mut size = 0;
    if ask(0, std::ptr::null_mut(), &raw mut size) != SUCCESS || size > limit {
        return None;
    }
    let mut bytes = vec![0; size];
    (ask(size, bytes.as_mut_ptr().cast(), std::ptr::null_mut()) == SUCCESS).then_some(bytes)
}

/// A property that is a text.
pub fn text_info(ask: impl FnMut(usize, *mut c_void, *mut usize) -> Status) -> Option<String> {
    let bytes = all(1 << 20, ask)?;
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// Answers a `clGet…Info` call of the program as a driver does.
///
/// # Safety
/// `value` is null, or `room` bytes can be written there. `size` is null or can be written.
pub unsafe fn answer(answer: &[u8], room: usize, value: *mut c_void, size: *mut usize) -> Status {
    if !value.is_null() {
        if room < answer.len() {
            return crate::ffi::INVALID_VALUE;
        }
        // SAFETY: there is room, by the caller's guarantee.
        unsafe { std::ptr::copy_nonoverlapping(answer.as_ptr(), value.cast(), answer.len()) };
    }
    if !size.is_null() {
        // SAFETY: the caller's guarantee.
        unsafe { size.write(answer.len()) };
    }
    SUCCESS
}
