//! ONNX's operator `Attention`.

use attention_core::functional::{
    AttentionOptions, dot_product_attention, dot_product_attention_steps,
};
use attention_core::{CachedKeys, DotProductAttentionConfig, KeyValueCache, Mask, NewRows};
use attention_tests::conformance::{Case, OnnxAttention};
use attention_tests::{Array, device};
use burn::tensor::{DType, Device, Tensor};

use super::{By, assert_conforms, cases_in_scope, split_heads, tolerance, with_axes};

/// A case on a device.
struct OnDevice<'a> {
    case: &'a Case<OnnxAttention>,
    device: &'a Device,
    dtype: DType,
}

impl OnDevice<'_> {
    fn input(&self, name: &str) -> Option<&Array> {
        self.case.inputs.get(name).map(|typed| &typed.array)
    }

    /// An input of four axes: features of three are split into heads.
    fn rows(&self, name: &str, heads: Option<usize>) -> Tensor<4> {
        split_heads(&self.case.inputs[name].array, heads).tensor(self.device, self.dtype)
    }

    /// The new keys and values.
    fn new_rows(&self) -> [Tensor<4>; 2] {
        ["K", "V"].map(|name| self.rows(name, self.case.attributes.kv_num_heads))
    }

    /// A cache of the past keys and values, if the case has some.
    fn past(&self) -> Option<KeyValueCache> {
        self.input("past_key")?;
        let [keys, values] = ["past_key", "past_value"].map(|name| self.rows(name, None));
        let mut cache = KeyValueCache::new();
        cache.append(keys, values, NewRows::All);
        Some(cache)
    }

    /// All keys and values: the past ones, then the new.
    fn all_rows(&self) -> [Tensor<4>; 2] {
        let [keys, values] = self.new_rows();
        let Some(mut cache) = self.past() else {
            return [keys, values];
        };
        cache.append(keys, values, NewRows::All);
        let CachedKeys { keys, values, .. } = cache.keys().expect("it was appended to");
        [keys, values]
    }

    /// The float mask, with -inf at keys that it does not reach.
    fn bias(&self, keys: usize) -> Option<Tensor<4>> {
        let typed = self.case.inputs.get("attn_mask")?;
        typed.element.float()?;
        let mask = with_axes(&typed.array, 4);
        let [batch, heads, queries, reached] = mask.shape[..] else {
            unreachable!("four axes")
        };
        let padded = Array::from_fn(&[batch, heads, queries, keys], |at| match at[3] < reached {
            true => mask.at(at),
            false => f64::NEG_INFINITY,
        });
        Some(padded.tensor(self.device, self.dtype))
    }

    /// The boolean mask, valid lengths, and what depends on positions.
    fn mask(&self, sizes: [usize; 3]) -> Mask {
        let of_flags = match self.case.inputs.get("attn_mask") {
            Some(typed) if typed.element.float().is_none() => {
                Mask::keep(with_axes(&typed.array, 4).bool::<4>(self.device))
            }
            _ => Mask::none(),
        };
        let of_lens = match self.input("nonpad_kv_seqlen") {
            Some(lens) => Mask::valid_lens(lens.int(self.device)),
            None => Mask::none(),
        };
        of_flags & of_lens & self.positions(sizes)
    }

    /// The causal mask and the window.
    fn positions(&self, [batch, queries, keys]: [usize; 3]) -> Mask {
        let attributes = &self.case.attributes;
        let limit = |size: i64| usize::try_from(size).ok();
        let before = limit(attributes.left_window_size);
        let after = match attributes.is_causal {
            0 => limit(attributes.right_window_size),
            _ => Some(0),
        };
        if before.is_none() && after.is_none() {
            return Mask::none();
        }
        // The key at which the first query stands, in each example.
        let starts: Vec<i64> = match (self.input("past_key"), self.input("nonpad_kv_seqlen")) {
            (Some(past), _) => vec![past.shape[2] as i64; batch],
            (_, Some(lens)) => {
                let start = |&len: &f64| len as i64 - queries as i64;
                lens.data.iter().map(start).collect()
            }
            _ => vec![0; batch],
        };
        let all_at = |start: i64| starts.iter().all(|&other| other == start);
        let [before_any, after_any] = [before, after].map(|limit| limit.unwrap_or(usize::MAX));
        if all_at(0) {
            return match before {
                None => Mask::causal_top_left(),
                Some(_) => Mask::window_top_left(before_any, after_any),
            };
        }
        if all_at(keys as i64 - queries as i64) {
            return Mask::window(before_any, after_any);
        }
        // Caches of different lengths.
        let within = |key: i64| key.clamp(0, keys as i64) as usize;
        let around = |position: i64| {
            let start = before.map_or(0, |before| within(position - before as i64));
            let end = after.map_or(keys, |after| within(position + after as i64 + 1));
            [start, end]
        };
        let of_example = |start: &i64| (*start..*start + queries as i64).map(around).collect();
        let bounds: Vec<Vec<_>> = starts.iter().map(of_example).collect();
        Mask::intervals(&bounds)
    }

    fn options(&self, sizes: [usize; 3]) -> AttentionOptions {
        let attributes = &self.case.attributes;
        AttentionOptions {
            mask: self.mask(sizes),
            scale: attributes.scale,
            soft_cap: (attributes.softcap > 0.0).then_some(attributes.softcap),
            bias: self.bias(sizes[2]),
            ..AttentionOptions::default()
        }
    }

    fn assert_output(&self, name: &str, actual: Tensor<4>) {
        let expected = &self.case.outputs[name].array;
        let expected = split_heads(expected, self.case.attributes.q_num_heads);
        let what = format!("{}: {name}, {:?}", self.case.name, self.dtype);
        let actual = Array::read(actual);
        assert_conforms(&what, &actual, &expected, tolerance(self.dtype));
    }

    fn check(&self) {
        let attributes = &self.case.attributes;
        let queries = self.rows("Q", attributes.q_num_heads);
        if is_cached(self.case) {
            let mut cache = self.past().expect("a case with past keys");
            let [keys, values] = self.new_rows();
            let options = AttentionOptions {
                scale: attributes.scale,
                ..AttentionOptions::default()
            };
            let attention = DotProductAttentionConfig::new().init();
            let (q, k, v, new) = (queries, keys, values, NewRows::All);
            let context = attention.forward_cached(q, k, v, new, &mut cache, options);
            self.assert_output("Y", context);
            return;
        }
        let [keys, values] = self.all_rows();
        let [batch, _, num_queries, _] = queries.dims();
        let options = self.options([batch, num_queries, keys.dims()[2]]);
        if self.case.outputs.contains_key("qk_matmul_output") {
            let steps = dot_product_attention_steps(queries, keys, values, &options);
            let scores = match attributes.qk_matmul_output_mode {
                0 => steps.scores,
                1 => steps.capped,
                2 => steps.masked,
                3 => steps.weights,
                mode => panic!("{}: unknown mode {mode}", self.case.name),
            };
            self.assert_output("qk_matmul_output", scores);
            self.assert_output("Y", steps.context);
        } else {
            self.assert_output("Y", dot_product_attention(queries, keys, values, &options));
        }
    }
}

/// The size of an axis of an input, counted from the last.
fn size(case: &Case<OnnxAttention>, name: &str, from_last: usize) -> Option<usize> {
    let shape = &case.inputs.get(name)?.array.shape;
    shape.iter().rev().nth(from_last).copied()
}

/// Whether queries are the last of the text, as the queries of a cache's call are, and nothing else is said.
fn is_cached(case: &Case<OnnxAttention>) -> bool {
    let attributes = &case.attributes;
    let is_last = size(case, "Q", 1) == size(case, "K", 1) && attributes.left_window_size < 0;
    let has_more = attributes.softcap > 0.0
        || case.inputs.contains_key("attn_mask")
        || case.outputs.contains_key("qk_matmul_output");
    let has_past = case.inputs.contains_key("past_key");
    has_past && attributes.is_causal == 1 && is_last && !has_more
}

fn by(case: &Case<OnnxAttention>) -> By {
    let past = size(case, "past_key", 1);
    let keys = size(case, "K", 1).map(|new| new + past.unwrap_or(0));
    let mask = case.inputs.get("attn_mask");
    let is_float = mask.is_some_and(|mask| mask.element.float().is_some());
    if is_float && size(case, "attn_mask", 0) != keys {
        // It is filled up with -inf.
        By::Tensors
    } else if past.is_some() && !is_cached(case) {
        By::Calls
    } else {
        By::OneCall
    }
}

#[test]
fn onnx_attention() {
    let cases = cases_in_scope(&[], by, [70, 90]);
    device::each(|device| {
        for case in &cases {
            let dtype = case.inputs["Q"].element.float().unwrap();
            if device::computes(device, dtype) {
                let on_device = OnDevice {
                    case,
                    device,
                    dtype,
                };
                on_device.check();
            }
        }
    });
}
