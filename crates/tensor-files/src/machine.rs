//! The stack machine of a pickle.

use std::collections::HashMap;
use std::io::{BufRead, Seek};

use crate::input::Input;
use crate::pickle::{Call, Object, Pickle, Value};

/// The most values that a pickle may make: a state dict makes about fifty per tensor, of some 100 bytes each.
const MAX_VALUES: usize = 1 << 23;

/// The largest length of a text that may be a name. No tensor is found by a longer one.
const MAX_TEXT_LEN: u64 = 1 << 16;

pub(crate) struct Machine<'a, R> {
    input: &'a mut Input<R>,
    stack: Vec<Value>,
    /// The heights of the stack at its marks.
    marks: Vec<usize>,
    memo: HashMap<u64, Value>,
    /// The number of values made.
    values: usize,
    pickle: Pickle,
}

/// The opcodes of protocols 0 to 5, with their names in Python's `pickletools`, except those that PyTorch does not
/// write: strings and old instances of Python 2 (`S`, `i`, `o`), and out-of-band buffers.
impl<'a, R: BufRead + Seek> Machine<'a, R> {
    pub(crate) fn new(input: &'a mut Input<R>) -> Self {
        Self {
            input,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            values: 0,
            pickle: Pickle {
                root: Value::Other,
                objects: Vec::new(),
            },
        }
    }

    pub(crate) fn run(mut self) -> Result<Pickle, String> {
        loop {
            let opcode = self.input.number(1)? as u8;
            if opcode == b'.' {
                self.pickle.root = self.pop()?;
                return Ok(self.pickle);
            }
            match self.constant(opcode)? {
                Some(value) => self.push(value)?,
                None => self.act(opcode)?,
            }
        }
    }

    /// The value of an opcode that does not depend on the stack.
    fn constant(&mut self, opcode: u8) -> Result<Option<Value>, String> {
        let value = match opcode {
            b'N' => Value::Other,      // NONE
            0x88 => Value::Bool(true), // NEWTRUE
            0x89 => Value::Bool(false),
            b'J' => Value::Int((self.input.number(4)? as i32).into()), // BININT
            b'K' => Value::Int(self.input.number(1)? as i64),
            b'M' => Value::Int(self.input.number(2)? as i64),
            b'I' | b'L' => number(&self.input.line()?), // INT, LONG
            0x8a => self.input.number(1).and_then(|len| self.long(len))?, // LONG1
            0x8b => self.input.number(4).and_then(|len| self.long(len))?,
            b'F' => self.input.line().map(|_| Value::Other)?, // FLOAT
            b'G' => self.skip(8)?,                            // BINFLOAT
            b'V' => self.input.line().map(|text| self.add(Object::Text(text)))?, // UNICODE
            b'U' | 0x8c => self.input.number(1).and_then(|len| self.text(len))?, // SHORT_BINSTRING, ..
            b'T' | b'X' => self.input.number(4).and_then(|len| self.text(len))?, // BINSTRING, BINUNICODE
            0x8d => self.input.number(8).and_then(|len| self.text(len))?,
            b'C' => self.input.number(1).and_then(|len| self.raw(len))?, // SHORT_BINBYTES
            b'B' => self.input.number(4).and_then(|len| self.raw(len))?,
            0x8e | 0x96 => self.input.number(8).and_then(|len| self.raw(len))?, // .., BYTEARRAY8
            0x82 => self.skip(1)?, // EXT1, a class by its number in a registry
            0x83 => self.skip(2)?,
            0x84 => self.skip(4)?,
            b')' | b']' | 0x8f => self.add(Object::List(Vec::new())), // EMPTY_TUPLE, _LIST, _SET
            b'}' => self.add(Object::Dict(Vec::new())),               // EMPTY_DICT
            b'c' => {
                let names = [self.input.line()?, self.input.line()?]; // GLOBAL
                let names = names.map(|name| self.add(Object::Text(name)));
                self.add(Object::Global(names))
            }
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    /// Applies any other opcode to the stack.
    fn act(&mut self, opcode: u8) -> Result<(), String> {
        match opcode {
            0x80 => match self.input.number(1)? {
                0..=5 => Ok(()), // PROTO
                version => Err(format!("its protocol is {version}, expected 0 to 5")),
            },
            0x95 => self.skip(8).map(drop), // FRAME
            b'(' => {
                self.count()?; // MARK
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'0' if self.marks.last() == Some(&self.stack.len()) => {
                self.marks.pop(); // POP, as Python's does
                Ok(())
            }
            b'0' => self.pop().map(drop),
            b'1' => self.pop_marked().map(drop), // POP_MARK
            b'2' => self.top().and_then(|top| self.push(top)), // DUP
            b't' | b'l' | 0x91 => {
                let values = self.pop_marked()?; // TUPLE, LIST, FROZENSET
                self.push_object(Object::List(values))
            }
            0x85..=0x87 => {
                let mut values = vec![Value::Other; usize::from(opcode - 0x84)]; // TUPLE1, ..
                for value in values.iter_mut().rev() {
                    *value = self.pop()?;
                }
                self.push_object(Object::List(values))
            }
            b'd' => {
                let values = self.pop_marked()?; // DICT
                self.push_object(Object::Dict(pairs(&values)?))
            }
            b'a' => self.pop().and_then(|value| self.append(&[value])), // APPEND
            b'e' | 0x90 => self.pop_marked().and_then(|values| self.append(&values)), // .., ADDITEMS
            b's' => {
                let value = self.pop()?; // SETITEM
                let key = self.pop()?;
                self.set(&[key, value])
            }
            b'u' => self.pop_marked().and_then(|values| self.set(&values)), // SETITEMS
            b'p' => self.input.line().and_then(|at| self.put(place(&at)?)), // PUT
            b'q' => self.input.number(1).and_then(|at| self.put(at)),
            b'r' => self.input.number(4).and_then(|at| self.put(at)),
            0x94 => self.put(self.memo.len() as u64), // MEMOIZE
            b'g' => self.input.line().and_then(|at| self.get(place(&at)?)), // GET
            b'h' => self.input.number(1).and_then(|at| self.get(at)),
            b'j' => self.input.number(4).and_then(|at| self.get(at)),
            0x93 => {
                let name = self.pop()?; // STACK_GLOBAL
                let module = self.pop()?;
                self.push_object(Object::Global([module, name]))
            }
            b'P' => {
                let id = self.input.line().map(|id| self.add(Object::Text(id)))?; // PERSID
                self.push_object(Object::Persistent(id))
            }
            b'Q' => {
                let id = self.pop()?; // BINPERSID
                self.push_object(Object::Persistent(id))
            }
            b'R' | 0x81 => self.call(), // REDUCE, NEWOBJ
            0x92 => self.pop().and_then(|_keywords| self.call()), // NEWOBJ_EX
            b'b' => self.build(),
            _ => Err(format!("the opcode 0x{opcode:02x} is not supported")),
        }
    }

    fn count(&mut self) -> Result<(), String> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(format!("it makes more than {MAX_VALUES} values"));
        }
        Ok(())
    }

    fn push(&mut self, value: Value) -> Result<(), String> {
        self.count()?;
        self.stack.push(value);
        Ok(())
    }

    fn add(&mut self, object: Object) -> Value {
        self.pickle.objects.push(object);
        Value::Object(self.pickle.objects.len() - 1)
    }

    fn push_object(&mut self, object: Object) -> Result<(), String> {
        let value = self.add(object);
        self.push(value)
    }

    /// The value on top of the stack, above its last mark.
    fn top(&self) -> Result<Value, String> {
        let bottom = self.marks.last().copied().unwrap_or(0);
        let top = self.stack[bottom..].last().copied();
        top.ok_or_else(|| "its stack is empty".to_string())
    }

    fn pop(&mut self) -> Result<Value, String> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn pop_marked(&mut self) -> Result<Vec<Value>, String> {
        let mark = self.marks.pop().ok_or("its stack has no mark")?;
        Ok(self.stack.split_off(mark))
    }

    fn put(&mut self, at: u64) -> Result<(), String> {
        self.count()?;
        let top = self.top()?;
        self.memo.insert(at, top);
        Ok(())
    }

    fn get(&mut self, at: u64) -> Result<(), String> {
        let value = self.memo.get(&at).copied();
        self.push(value.ok_or_else(|| format!("it refers to an object {at} that is not there"))?)
    }

    /// The object on top of the stack.
    fn top_object(&mut self) -> Result<&mut Object, String> {
        match self.top()? {
            Value::Object(at) => Ok(&mut self.pickle.objects[at]),
            _ => Err("it adds to what is no object".to_string()),
        }
    }

    /// Adds values to a list. Items added to another object as to a list, such as to a queue, have no name.
    fn append(&mut self, values: &[Value]) -> Result<(), String> {
        match self.top_object()? {
            Object::List(list) => list.extend_from_slice(values),
            Object::Call(_) => {}
            _ => return Err("it appends to what is no list".to_string()),
        }
        Ok(())
    }

    fn set(&mut self, values: &[Value]) -> Result<(), String> {
        let new = pairs(values)?;
        match self.top_object()? {
            Object::Dict(items) => items.extend(new),
            Object::Call(call) => call.items.extend(new),
            _ => return Err("it sets items of what is no dict".to_string()),
        }
        Ok(())
    }

    fn call(&mut self) -> Result<(), String> {
        let arguments = self.pop()?;
        let callable = self.pop()?;
        self.push_object(Object::Call(Box::new(Call {
            callable,
            arguments,
            items: Vec::new(),
            state: Value::Other,
        })))
    }

    /// Sets the attributes of an object. Attributes of a dict, as the `_metadata` of a state dict, are no tensors.
    fn build(&mut self) -> Result<(), String> {
        let state = self.pop()?;
        if let Object::Call(call) = self.top_object()? {
            call.state = state;
        }
        Ok(())
    }

    /// Bytes, which are not copied.
    fn raw(&mut self, len: u64) -> Result<Value, String> {
        let bytes = self.input.skip(len)?;
        Ok(self.add(Object::Bytes(bytes)))
    }

    fn skip(&mut self, len: u64) -> Result<Value, String> {
        self.input.skip(len).map(|_| Value::Other)
    }

    fn text(&mut self, len: u64) -> Result<Value, String> {
        if len > MAX_TEXT_LEN {
            return self.skip(len);
        }
        let text = self.input.text(len)?;
        Ok(self.add(Object::Text(text)))
    }

    /// An integer in two's complement.
    fn long(&mut self, len: u64) -> Result<Value, String> {
        if len > 8 {
            return self.skip(len);
        }
        let number = self.input.number(len as usize)?;
        // The sign bit is that of the highest byte.
        let above = 64 - 8 * len as u32;
        let shifted = number.checked_shl(above).unwrap_or(0) as i64;
        Ok(Value::Int(shifted.checked_shr(above).unwrap_or(0)))
    }
}

/// A number in protocol 0, where booleans are `00` and `01`.
fn number(line: &str) -> Value {
    match line {
        "00" => Value::Bool(false),
        "01" => Value::Bool(true),
        _ => {
            let digits = line.strip_suffix('L').unwrap_or(line);
            digits.parse().map_or(Value::Other, Value::Int)
        }
    }
}

fn place(line: &str) -> Result<u64, String> {
    line.parse()
        .map_err(|_| "it refers to an object that is not there".to_string())
}

fn pairs(values: &[Value]) -> Result<Vec<[Value; 2]>, String> {
    match values.as_chunks() {
        (pairs, []) => Ok(pairs.to_vec()),
        _ => Err("it has a key without a value".to_string()),
    }
}
