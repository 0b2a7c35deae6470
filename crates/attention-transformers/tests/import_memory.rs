//! Memory that an import takes: the layer's, not the file's. A program of its own: its allocator counts.
#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use attention_core::NewRows;
use attention_import::packages::d2l;
use attention_tests::checkpoint::{CompressionMethod, View, dict, pickle, write_archive};
use attention_tests::{Array, device, reference_path};
use attention_transformers::hub::load_llama;
use burn::tensor::{Int, Tensor};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counting bytes.
struct Counting;

// SAFETY: every method passes its arguments on to `System`, which keeps the contract, and returns what it returns.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Held by a test, since all of them share the counts.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result of a function, and the most bytes that it took meanwhile.
fn counted<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let made = make();
    (made, PEAK.load(Relaxed) - before)
}

/// The sizes of the attention. Its parameters take 1.5 MB.
const SIZES: [usize; 3] = [256, 512, 500];
const BYTES: usize = 4 * (256 * 500 + 512 * 500 + 500);

/// The shapes of the parameters.
const QUERY: [usize; 2] = [SIZES[2], SIZES[0]];
const KEY: [usize; 2] = [SIZES[2], SIZES[1]];
const VALUE: [usize; 2] = [1, SIZES[2]];

/// A file that has another tensor of 256 MB at its end, all a hole.
fn write_safetensors(path: &Path) {
    let mut start = 0;
    let mut entry = |(name, [rows, columns]): (&str, [usize; 2])| {
        let end = start + 4 * rows * columns;
        let offsets = format!("[{start},{end}]");
        start = end;
        format!(r#""{name}":{{"dtype":"F32","shape":[{rows},{columns}],"data_offsets":{offsets}}}"#)
    };
    let tensors = [
        ("attention.W_q.weight", QUERY),
        ("attention.W_k.weight", KEY),
        ("attention.w_v.weight", VALUE),
        ("other", [8_192, 8_192]),
    ];
    let entries: Vec<String> = tensors.into_iter().map(&mut entry).collect();
    let header = format!("{{{}}}", entries.join(","));
    let content = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    std::fs::write(path, &content).unwrap();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len((content.len() + start) as u64).unwrap();
}

/// A file in which `W_q.weight` is some columns of another tensor of 32 MB, from its first row to its last.
fn write_checkpoint(path: &Path) {
    const WIDTH: usize = 16_384;
    let view = |storage, len: usize, offset, [rows, columns]: [usize; 2], stride: usize| {
        let view = View {
            storage,
            len: len as i64,
            offset,
            shape: &[rows as i64, columns as i64],
            strides: &[stride as i64, 1],
        };
        view.pickled()
    };
    let whole = |storage, shape: [usize; 2]| view(storage, shape[0] * shape[1], 0, shape, shape[1]);
    let wide = [QUERY[0], WIDTH];
    let query = view("0", wide[0] * wide[1], 100, QUERY, WIDTH);
    let tensors = [
        ("other", whole("0", wide)),
        ("attention.W_q.weight", query),
        ("attention.W_k.weight", whole("1", KEY)),
        ("attention.w_v.weight", whole("2", VALUE)),
    ];
    let zeros = |[rows, columns]: [usize; 2]| vec![0; 4 * rows * columns];
    let [other, k, v] = [wide, KEY, VALUE].map(zeros);
    let storages = [("data/0", &other[..]), ("data/1", &k), ("data/2", &v)];
    let pickle = pickle(&dict(&tensors));
    write_archive(path, CompressionMethod::Stored, &pickle, &storages);
}

#[test]
fn an_import_takes_memory_for_its_layer_and_not_for_the_file() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    for write in [write_safetensors, write_checkpoint] {
        write(&path);
        let device = &device::plain()[0];
        let load = || d2l::pytorch::ADDITIVE.load(&path, "attention.", device);
        let (attention, extra) = counted(load);
        let attention = attention.unwrap();
        let len = std::fs::metadata(&path).unwrap().len();
        println!("{extra} bytes for {BYTES} of a file of {len}");
        assert!(extra < 4 * BYTES, "{extra} bytes for {BYTES}");
        let query = Array::read(attention.score.query.weight.val());
        assert!(query.data.iter().all(|&element| element == 0.0));
    }
}

/// Tables of a million positions would take 24 MB.
#[test]
fn a_model_for_long_texts_takes_memory_for_the_text_that_it_reads() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let original = reference_path("hugging_face/llama");
    let config = std::fs::read_to_string(original.join("config.json")).unwrap();
    let field = |len: &str| format!(r#""max_position_embeddings": {len}"#);
    let (short, long) = (field("64"), field("1000000"));
    assert!(config.contains(&short));
    let config = config.replace(&short, &long);
    std::fs::write(folder.path().join("config.json"), config).unwrap();
    let weights = "model.safetensors";
    std::fs::copy(original.join(weights), folder.path().join(weights)).unwrap();
    let device = &device::plain()[0];
    let tokens = Tensor::<2, Int>::ones([1, 40], device);
    let (logits, extra) = counted(|| {
        let model = load_llama(folder.path(), device).unwrap();
        model.forward(tokens, NewRows::All)
    });
    assert_eq!(logits.dims(), [1, 40, 37]);
    println!("{extra} bytes");
    assert!(extra < 2_000_000, "{extra} bytes");
}
