//! Saving and loading: Burn's records.

use attention_core::{AdditiveAttention, AdditiveAttentionConfig, MultiHeadAttentionConfig};
use attention_tests::heads::{HEADS, HIDDENS, Inputs, tensors};
use attention_tests::{Array, MaskSpec, assert_all_same, assert_close, device, reference};
use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttentionConfig as BurnsConfig};
use burn::tensor::{DType, Device};

/// The sizes of the reference files.
const SIZES: [usize; 3] = [11, 13, 17];

fn attention([query_size, key_size, hiddens]: [usize; 3], device: &Device) -> AdditiveAttention {
    AdditiveAttentionConfig::new(query_size, key_size, hiddens).init(device)
}

/// Context and weights on the inputs of the reference.
fn run(attention: &AdditiveAttention, device: &Device) -> [Array; 2] {
    let case = &reference("additive_state_dict")[0];
    let [queries, keys, values] = case.problem().0.f32::<3>(device);
    let output = attention.forward_with_weights(queries, keys, values, case.mask.mask(device));
    [output.context, output.weights].map(Array::read)
}

#[test]
fn a_record_restores_every_parameter() {
    let folder = tempfile::tempdir().unwrap();
    device::each_both_ways(|device| {
        let saved = attention(SIZES, device);
        let expected = run(&saved, device);
        let path = folder.path().join("attention");
        saved.clone().save_file(&path).unwrap();

        let other = attention(SIZES, device);
        let found = run(&other, device);
        assert_ne!(found, expected, "new parameters are the saved ones");
        let loaded = other.try_load_file(&path).unwrap();
        assert_all_same("loaded", &run(&loaded, device), &expected);

        let loaded = attention(SIZES, device).load_record(saved.into_record());
        assert_all_same("record", &run(&loaded, device), &expected);
    });
}

#[test]
fn a_record_of_another_shape_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    device::each(|device| {
        let path = folder.path().join("attention");
        attention([3, 5, 7], device).save_file(&path).unwrap();
        for sizes in [[2, 5, 7], [3, 4, 7], [3, 5, 8]] {
            let error = attention(sizes, device).try_load_file(&path).unwrap_err();
            let error = error.to_string();
            assert!(error.to_lowercase().contains("shape"), "{error}");
        }
        let none = folder.path().join("none");
        assert!(attention([3, 5, 7], device).try_load_file(none).is_err());
    });
}

#[test]
fn a_trained_record_loads_for_inference() {
    let folder = tempfile::tempdir().unwrap();
    device::each(|device| {
        let trained = attention(SIZES, &device.clone().autodiff());
        let path = folder.path().join("attention");
        trained.clone().save_file(&path).unwrap();
        let loaded = attention(SIZES, device).try_load_file(&path).unwrap();
        let expected = run(&trained.valid(), device);
        assert_all_same("loaded", &run(&loaded, device), &expected);
    });
}

#[test]
fn a_record_of_burns_module_loads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("burn");
    device::each(|device| {
        let config = BurnsConfig::new(HIDDENS, HEADS).with_dropout(0.0);
        let theirs = config.init(device);
        theirs.clone().save_file(&path).unwrap();
        let config = MultiHeadAttentionConfig::new(HIDDENS, HEADS).with_bias(true);
        let ours = config.init(device).try_load_file(&path).unwrap();
        let [batch, queries, keys] = [2, 5, 7];
        let rows = [("queries", queries), ("keys", keys), ("values", keys)];
        let draw = |rows| Array::draw(rows as u64, &[batch, rows, HIDDENS]);
        let inputs = Inputs::from(rows.map(|(name, rows)| (name.into(), draw(rows))));
        for mask in [MaskSpec::lens(&[3, 6]), MaskSpec::Causal] {
            let [q, k, v] = tensors(&inputs, (device, DType::F32));
            let attended = mask
                .table([batch, 1, queries, keys])
                .reshape(&[batch, queries, keys]);
            let masked = attended.map(|see| 1.0 - see);
            let input = MhaInput::new(q.clone(), k.clone(), v.clone());
            let expected = theirs.forward(input.mask_attn(masked.bool(device)));
            let output = ours.forward_with_weights(q, k, v, mask.mask(device));
            assert_close("context", output.context, expected.context, 2e-6);
            assert_close("weights", output.weights, expected.weights, 2e-6);
        }
    });
}
