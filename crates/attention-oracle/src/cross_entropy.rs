//! Cross-entropy of classes.

/// The class of each row, and the weight of its loss.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropy<'a> {
    /// The class of each row.
    pub targets: &'a [usize],
    /// The factor on the loss of each row.
    pub factors: &'a [f64],
    /// The part of the target's probability that is divided among all classes: Szegedy et al. 2016, "Rethinking the
    /// Inception Architecture for Computer Vision".
    pub label_smoothing: f64,
}

impl CrossEntropy<'_> {
    /// The sum over rows of `factor sum_c target[c] (log sum_k exp logit[k] - logit[c])`.
    pub fn loss(&self, logits: &[f64]) -> f64 {
        let mut loss = 0.0;
        for (row, logits) in self.rows(logits).enumerate() {
            let greatest = logits[argmax(logits)];
            let sum: f64 = logits.iter().map(|logit| (logit - greatest).exp()).sum();
            for c in 0..logits.len() {
                let loss_of_class = greatest + sum.ln() - logits[c];
                loss += self.factors[row] * self.target(row, c, logits.len()) * loss_of_class;
            }
        }
        loss
    }

    /// The gradient of the logits: `grad_loss factor (softmax(logits)[c] - target[c])`.
    pub fn backward(&self, logits: &[f64], grad_loss: f64) -> Vec<f64> {
        let mut grad_logits = Vec::new();
        for (row, logits) in self.rows(logits).enumerate() {
            let greatest = logits[argmax(logits)];
            let sum: f64 = logits.iter().map(|logit| (logit - greatest).exp()).sum();
            for c in 0..logits.len() {
                let probability = (logits[c] - greatest).exp() / sum;
                let difference = probability - self.target(row, c, logits.len());
                grad_logits.push(grad_loss * self.factors[row] * difference);
            }
        }
        grad_logits
    }

    /// The most likely class of each row, the first of equal ones.
    pub fn predictions(&self, logits: &[f64]) -> Vec<usize> {
        self.rows(logits).map(argmax).collect()
    }

    fn rows<'a>(&self, logits: &'a [f64]) -> impl Iterator<Item = &'a [f64]> + use<'a> {
        logits.chunks((logits.len() / self.targets.len().max(1)).max(1))
    }

    /// The probability that a class should have.
    fn target(&self, row: usize, class: usize, classes: usize) -> f64 {
        let hit = if class == self.targets[row] { 1.0 } else { 0.0 };
        (1.0 - self.label_smoothing) * hit + self.label_smoothing / classes as f64
    }
}

fn argmax(numbers: &[f64]) -> usize {
    let mut greatest = 0;
    for index in 0..numbers.len() {
        if numbers[index] > numbers[greatest] {
            greatest = index;
        }
    }
    greatest
}
