//! Made-up words and their pronunciations, as long as those of CMUdict.

use attention_seq2seq::{Pair, Tokenization};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// How many of a thousand words of CMUdict 0.7b have so many letters, from one on.
const LENGTHS: [u32; 14] = [1, 5, 27, 76, 132, 180, 182, 149, 108, 66, 39, 20, 9, 6];

/// Letters and their sounds, consonants first; a pair of letters is one sound.
#[rustfmt::skip]
const CONSONANTS: [(&str, &str); 24] = [
    ("b", "B"), ("c", "K"), ("ch", "CH"), ("d", "D"), ("f", "F"), ("g", "G"), ("h", "HH"), ("j", "JH"),
    ("k", "K"), ("l", "L"), ("m", "M"), ("n", "N"), ("ng", "NG"), ("p", "P"), ("ph", "F"), ("r", "R"),
    ("s", "S"), ("sh", "SH"), ("t", "T"), ("th", "TH"), ("v", "V"), ("w", "W"), ("y", "Y"), ("z", "Z"),
];
#[rustfmt::skip]
const VOWELS: [(&str, &str); 8] = [
    ("a", "AE"), ("e", "EH"), ("i", "IH"), ("o", "AA"), ("u", "AH"), ("ee", "IY"), ("oo", "UW"), ("ai", "EY"),
];

/// So many words; a seed makes the same ones. The first vowel is stressed.
pub(crate) fn words(count: usize, seed: u64) -> Vec<Pair> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| word(&mut random)).collect()
}

fn word(random: &mut ChaCha8Rng) -> Pair {
    let mut place = random.random_range(0..LENGTHS.iter().sum::<u32>());
    let mut letters = 0;
    for share in LENGTHS {
        letters += 1;
        if place < share {
            break;
        }
        place -= share;
    }
    let (mut spelling, mut sounds) = (String::new(), Vec::new());
    let mut is_vowel = random.random_bool(0.25);
    let mut stress = 1;
    while spelling.len() < letters {
        let table = if is_vowel { &VOWELS[..] } else { &CONSONANTS };
        let (letters, sound) = table[random.random_range(0..table.len())];
        spelling.push_str(letters);
        if is_vowel {
            sounds.push(format!("{sound}{stress}"));
            stress = 0;
        } else {
            sounds.push(sound.to_string());
        }
        // Two consonants may follow each other.
        is_vowel = !is_vowel && random.random_bool(0.8);
    }
    Pair {
        source: Tokenization::Chars.split(&spelling),
        target: sounds,
    }
}
