//! A type with the buffer protocol over memory that another object owns.
//!
//! It is made by hand, because PyO3 offers the protocol only with the stable ABI of Python 3.11.
//! The two slots, their numbers and the structure that they fill have been the same since 3.9, and
//! the interpreter accepts them in `PyType_FromSpec` since then; 3.11 made them part of the ABI.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// `Py_bf_getbuffer` of CPython's `typeslots.h`.
const GET_BUFFER: c_int = 1;
/// `PyBUF_FORMAT`: the consumer reads the format.
const WANTS_FORMAT: c_int = 4;
/// `PyBUF_ND`: the consumer reads the shape.
const WANTS_SHAPE: c_int = 8;
/// `PyBUF_STRIDES`, which includes the shape.
const WANTS_STRIDES: c_int = 0x18;

/// `Py_buffer` of CPython 3.9 and later.
#[repr(C)]
struct Buffer {
    address: *mut c_void,
    object: *mut ffi::PyObject,
    length: ffi::Py_ssize_t,
    item_size: ffi::Py_ssize_t,
    read_only: c_int,
    dimensions: c_int,
    format: *mut c_char,
    shape: *mut ffi::Py_ssize_t,
    strides: *mut ffi::Py_ssize_t,
    suboffsets: *mut ffi::Py_ssize_t,
    internal: *mut c_void,
}

/// An object of the type. Only `owner` is counted; it keeps the bytes where they are.
#[repr(C)]
struct View {
    base: ffi::PyObject,
    address: *mut c_void,
    length: ffi::Py_ssize_t,
    owner: *mut ffi::PyObject,
}

/// Makes the type `View(address, length, owner)`: a writable buffer of `length` bytes at `address`,
/// which exist as long as `owner` does. Classes in Python derive from it.
pub(crate) fn view_type(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    let slot = |slot, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let doc = c"View(address, length, owner)\n--\n\nBytes of an owner, as a writable buffer.";
    let mut slots = [
        slot(ffi::Py_tp_new, new as *mut c_void),
        slot(ffi::Py_tp_dealloc, deallocate as *mut c_void),
        slot(ffi::Py_tp_doc, doc.as_ptr() as *mut c_void),
        slot(GET_BUFFER, get_buffer as *mut c_void),
        slot(0, ptr::null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"fairway._fairway.View".as_ptr(),
        basicsize: size_of::<View>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the slots end with a zero, hold functions of the types that their numbers stand for,
    // and are copied; name and text are static.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec)) }?;
    Ok(made.cast_into::<PyType>()?)
}

/// `tp_new`.
unsafe extern "C" fn new(
    class: *mut ffi::PyTypeObject,
    arguments: *mut ffi::PyObject,
    _keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this attached, with a tuple.
    let (py, given) = unsafe {
        let py = Python::assume_attached();
        (py, Bound::from_borrowed_ptr(py, arguments))
    };
    match allocate(py, class, &given) {
        Ok(made) => made,
        Err(error) => {
            error.restore(py);
            ptr::null_mut()
        }
    }
}

fn allocate(
    py: Python<'_>,
    class: *mut ffi::PyTypeObject,
    arguments: &Bound<'_, PyAny>,
) -> PyResult<*mut ffi::PyObject> {
    let tuple = arguments.cast::<PyTuple>()?;
    let (address, length, owner): (usize, usize, Bound<'_, PyAny>) = tuple.extract()?;
    let length = ffi::Py_ssize_t::try_from(length)
        .map_err(|_| PyTypeError::new_err("length is more than memory can have"))?;
    // SAFETY: the slot of a type is the function that allocates its objects, zeroed but for the
    // head, with at least the size of `View`, from which the type derives.
    unsafe {
        let slot = ffi::PyType_GetSlot(class, ffi::Py_tp_alloc);
        if slot.is_null() {
            return Err(PyErr::fetch(py));
        }
        let alloc: ffi::allocfunc = std::mem::transmute::<*mut c_void, ffi::allocfunc>(slot);
        let made = alloc(class, 0);
        if made.is_null() {
            return Err(PyErr::fetch(py));
        }
        let view = made.cast::<View>();
        (*view).address = address as *mut c_void;
        (*view).length = length;
        (*view).owner = owner.into_ptr();
        Ok(made)
    }
}

/// `tp_dealloc`.
unsafe extern "C" fn deallocate(object: *mut ffi::PyObject) {
    // SAFETY: the object is a `View` that nothing refers to any more. Objects of a type made at run
    // time hold a reference to it.
    unsafe {
        let class = ffi::Py_TYPE(object);
        ffi::Py_XDECREF((*object.cast::<View>()).owner);
        let free: ffi::freefunc = std::mem::transmute::<*mut c_void, ffi::freefunc>(
            ffi::PyType_GetSlot(class, ffi::Py_tp_free),
        );
        free(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}

/// `bf_getbuffer`.
unsafe extern "C" fn get_buffer(
    object: *mut ffi::PyObject,
    buffer: *mut Buffer,
    flags: c_int,
) -> c_int {
    // SAFETY: the object is a `View`, and `buffer` is the consumer's to be filled. The buffer holds
    // a reference to the object, and through it to the bytes and to their length.
    unsafe {
        let view = object.cast::<View>();
        let wants = |flag| flags & flag == flag;
        (*buffer).address = (*view).address;
        ffi::Py_INCREF(object);
        (*buffer).object = object;
        (*buffer).length = (*view).length;
        (*buffer).item_size = 1;
        (*buffer).read_only = 0;
        (*buffer).dimensions = 1;
        let format = if wants(WANTS_FORMAT) { c"B".as_ptr() } else { ptr::null() };
        (*buffer).format = format.cast_mut();
        (*buffer).shape =
            if wants(WANTS_SHAPE) { &raw mut (*view).length } else { ptr::null_mut() };
        (*buffer).strides =
            if wants(WANTS_STRIDES) { &raw mut (*buffer).item_size } else { ptr::null_mut() };
        (*buffer).suboffsets = ptr::null_mut();
        (*buffer).internal = ptr::null_mut();
    }
    0
}
