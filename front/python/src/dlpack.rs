//! Memory as DLPack's capsules, both ways: PyTorch, JAX, CuPy and numpy exchange arrays by them.
//!
//! The layout is that of `dlpack.h` 1.0 and, for consumers that request no version, that of 0.x.

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_void};
use std::ptr;

use crate::error::invalid;

const NAME: &CStr = c"dltensor";
const NAME_VERSIONED: &CStr = c"dltensor_versioned";
/// `kDLCPU`.
const CPU: i32 = 1;
/// `kDLUInt`.
const UNSIGNED: u8 = 1;
/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
const READ_ONLY: u64 = 1;

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: (i32, i32),
    dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    version: (u32, u32),
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// What an exported tensor is made of: freed by its deleter.
struct Exported<T> {
    head: T,
    shape: i64,
    stride: i64,
    owner: Py<PyAny>,
}

/// Returns address and length in bytes of the tensor in a capsule. The bytes are there as long as
/// the capsule, which is left as it was: it still owns the tensor.
///
/// Fails with `Invalid` if the tensor isn't in the memory of the processor, is not contiguous, or
/// may only be read.
#[pyfunction]
pub(crate) fn dlpack_address(capsule: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
    let py = capsule.py();
    // SAFETY: the name is a C string; a capsule with this name holds such a tensor, by DLPack.
    let tensor = unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), NAME_VERSIONED.as_ptr()) != 0 {
            let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), NAME_VERSIONED.as_ptr());
            let versioned = &*pointer.cast::<Versioned>();
            if versioned.version.0 > 1 {
                return Err(invalid(py, "the tensor's DLPack version is newer than 1"));
            }
            if versioned.flags & READ_ONLY != 0 {
                return Err(invalid(py, "the tensor is read-only: register a writable copy"));
            }
            &versioned.tensor
        } else if ffi::PyCapsule_IsValid(capsule.as_ptr(), NAME.as_ptr()) != 0 {
            let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), NAME.as_ptr());
            &(*pointer.cast::<Managed>()).tensor
        } else {
            return Err(invalid(py, "__dlpack__ returned no capsule with a tensor"));
        }
    };
    if tensor.device.0 != CPU {
        let text = format!(
            "the tensor is on device {:?}, and only memory of the processor can be registered: \
             copy it there first (tensor.cpu())",
            tensor.device
        );
        return Err(invalid(py, &text));
    }
    let bytes = contiguous_bytes(tensor)
        .ok_or_else(|| invalid(py, "the tensor is not contiguous: register a contiguous one"))?;
    Ok((tensor.data as usize + tensor.byte_offset as usize, bytes))
}

/// Returns the length of a tensor in bytes, if its elements follow one another in C order.
fn contiguous_bytes(tensor: &Tensor) -> Option<usize> {
    let mut elements = 1_i64;
    for dimension in (0..usize::try_from(tensor.dimensions).ok()?).rev() {
        // SAFETY: shape and strides have as many entries as the tensor has dimensions, by DLPack;
        // without strides it is contiguous.
        let (length, stride) = unsafe {
            let length = *tensor.shape.add(dimension);
            let stride = tensor.strides;
            (length, if stride.is_null() { elements } else { *stride.add(dimension) })
        };
        if length > 1 && stride != elements {
            return None;
        }
        elements = elements.checked_mul(length)?;
    }
    let bits = usize::from(tensor.bits) * usize::from(tensor.lanes);
    Some(usize::try_from(elements).ok()?.checked_mul(bits)?.div_ceil(8))
}

/// Returns a capsule with `length` bytes at `address` as a tensor of one dimension; `owner` is held
/// until its consumer frees the tensor.
#[pyfunction]
pub(crate) fn dlpack_capsule<'py>(
    py: Python<'py>,
    address: usize,
    length: usize,
    owner: Py<PyAny>,
    versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let tensor = Tensor {
        data: address as *mut c_void,
        device: (CPU, 0),
        dimensions: 1,
        code: UNSIGNED,
        bits: 8,
        lanes: 1,
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    };
    let shape = i64::try_from(length).map_err(|_| PyBufferError::new_err("too long"))?;
    if versioned {
        let deleter: unsafe extern "C" fn(*mut Versioned) = free_versioned;
        let (version, context, deleter) = ((1, 0), ptr::null_mut(), Some(deleter));
        let head = Versioned { version, context, deleter, flags: 0, tensor };
        let made = Box::into_raw(Box::new(Exported { head, shape, stride: 1, owner }));
        // SAFETY: just made, and not shared yet; freed by the deleter alone.
        unsafe {
            (*made).head.context = made.cast();
            (*made).head.tensor.shape = &raw mut (*made).shape;
            (*made).head.tensor.strides = &raw mut (*made).stride;
            capsule(py, (&raw mut (*made).head).cast(), NAME_VERSIONED, destroy_versioned)
        }
    } else {
        let deleter: unsafe extern "C" fn(*mut Managed) = free_managed;
        let head = Managed { tensor, context: ptr::null_mut(), deleter: Some(deleter) };
        let made = Box::into_raw(Box::new(Exported { head, shape, stride: 1, owner }));
        // SAFETY: as above.
        unsafe {
            (*made).head.context = made.cast();
            (*made).head.tensor.shape = &raw mut (*made).shape;
            (*made).head.tensor.strides = &raw mut (*made).stride;
            capsule(py, (&raw mut (*made).head).cast(), NAME, destroy_managed)
        }
    }
}

/// Makes a capsule.
///
/// # Safety
/// `pointer` is a tensor of the kind that `name` stands for and `destroy` frees.
unsafe fn capsule<'py>(
    py: Python<'py>,
    pointer: *mut c_void,
    name: &'static CStr,
    destroy: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: name and destructor are static.
    unsafe {
        let made = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destroy));
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// Frees the tensor of a capsule that no consumer has taken; consumers rename the capsule.
unsafe extern "C" fn destroy_managed(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule with this name holds a tensor that `dlpack_capsule` made.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) != 0 {
            free_managed(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn destroy_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME_VERSIONED.as_ptr()) != 0 {
            free_versioned(ffi::PyCapsule_GetPointer(capsule, NAME_VERSIONED.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn free_managed(managed: *mut Managed) {
    // SAFETY: the consumer calls this once; the context is the box that holds the tensor.
    unsafe { free(Box::from_raw((*managed).context.cast::<Exported<Managed>>())) }
}

unsafe extern "C" fn free_versioned(managed: *mut Versioned) {
    // SAFETY: as above.
    unsafe { free(Box::from_raw((*managed).context.cast::<Exported<Versioned>>())) }
}

/// Drops the owner, on whichever thread the consumer frees the tensor.
#[expect(clippy::boxed_local, reason = "it is the box that is freed")]
fn free<T>(exported: Box<Exported<T>>) {
    crate::releases::release(exported.owner);
}
