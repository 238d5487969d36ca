//! Makes `memory.fill` and `memory.copy` use fuel in proportion to their bytes, as they do in the
//! interpreter. In machine code each of them costs one unit, so that a module could fill its memory
//! thousands of times in an event.
//!
//! Each of the two becomes a call of a function that is appended to the module. The function counts
//! the bytes down in steps of [`STEP_BYTES`], which uses fuel, and then does what was asked.

use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    BlockType, CodeSection, Function, FunctionSection, Instruction, TypeSection, ValType,
};
use wasmparser::{
    CodeSectionReader, FunctionSectionReader, Operator, Parser, Payload, TypeRef, TypeSectionReader,
};

/// Bytes for which a step uses fuel; the interpreter uses one unit for as many.
const STEP_BYTES: u32 = 64;
/// Maximum size of a function's code, in bytes. The compiler's time grows faster than a function.
const FUNCTION_BYTES_MAX: usize = 32 * 1024;
/// Maximum number of functions, each of which takes the compiler some time.
const FUNCTIONS_MAX: u32 = 2_000;

/// Returns the module with metered instructions; `None` if it uses others whose time depends on
/// their operands, or is too large for the compiler.
pub(super) fn metered(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut counted = Counted::of(bytes)?;
    let mut module = wasm_encoder::Module::new();
    counted.parse_core_module(&mut module, Parser::new(0), bytes).ok()?;
    Some(module.finish())
}

/// Where the appended functions come in a module.
struct Counted {
    types: u32,
    /// Imported functions and own ones.
    functions: u32,
}

impl Counted {
    fn of(bytes: &[u8]) -> Option<Counted> {
        let mut counted = Counted { types: 0, functions: 0 };
        let mut own = 0;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.ok()? {
                Payload::TypeSection(types) => counted.types = types.count(),
                Payload::ImportSection(imports) => {
                    for import in imports {
                        let is_function = matches!(import.ok()?.ty, TypeRef::Func(_));
                        counted.functions += u32::from(is_function);
                    }
                }
                Payload::FunctionSection(functions) => own = functions.count(),
                Payload::CodeSectionEntry(body) if body.range().len() > FUNCTION_BYTES_MAX => {
                    return None;
                }
                Payload::CodeSectionEntry(body) => {
                    for operator in body.get_operators_reader().ok()? {
                        if is_unmetered(&operator.ok()?) {
                            return None;
                        }
                    }
                }
                _ => {}
            }
        }
        counted.functions += own;
        (own <= FUNCTIONS_MAX).then_some(counted)
    }

    fn fill(&self) -> u32 {
        self.functions
    }

    fn copy(&self) -> u32 {
        self.functions + 1
    }
}

/// True for instructions that work on a range, and that no function here replaces.
fn is_unmetered(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::MemoryInit { .. }
            | Operator::TableInit { .. }
            | Operator::TableCopy { .. }
            | Operator::TableFill { .. }
            | Operator::TableGrow { .. }
    )
}

impl Reencode for Counted {
    type Error = std::convert::Infallible;

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        section: TypeSectionReader<'_>,
    ) -> Result<(), Error<Self::Error>> {
        utils::parse_type_section(self, types, section)?;
        types.ty().function([ValType::I32; 3], []);
        Ok(())
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: FunctionSectionReader<'_>,
    ) -> Result<(), Error<Self::Error>> {
        utils::parse_function_section(self, functions, section)?;
        functions.function(self.types).function(self.types);
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader<'_>,
    ) -> Result<(), Error<Self::Error>> {
        utils::parse_code_section(self, code, section)?;
        code.function(&counting(&Instruction::MemoryFill(0)));
        code.function(&counting(&Instruction::MemoryCopy { src_mem: 0, dst_mem: 0 }));
        Ok(())
    }

    fn instruction<'a>(
        &mut self,
        operator: Operator<'a>,
    ) -> Result<Instruction<'a>, Error<Self::Error>> {
        match operator {
            Operator::MemoryFill { .. } => Ok(Instruction::Call(self.fill())),
            Operator::MemoryCopy { .. } => Ok(Instruction::Call(self.copy())),
            other => utils::instruction(self, other),
        }
    }
}

/// Returns a function of three operands that counts the third one down, and then does `work` with
/// all three.
fn counting(work: &Instruction<'_>) -> Function {
    const LEFT: u32 = 3;
    let mut function = Function::new([(1, ValType::I32)]);
    function
        .instructions()
        .local_get(2)
        .i32_const(STEP_BYTES.ilog2() as i32)
        .i32_shr_u()
        .local_set(LEFT)
        .block(BlockType::Empty)
        .loop_(BlockType::Empty)
        .local_get(LEFT)
        .i32_eqz()
        .br_if(1)
        .local_get(LEFT)
        .i32_const(1)
        .i32_sub()
        .local_set(LEFT)
        .br(0)
        .end()
        .end()
        .local_get(0)
        .local_get(1)
        .local_get(2);
    function.instruction(work).instruction(&Instruction::End);
    function
}
