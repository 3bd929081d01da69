// The GRPO loss of one token and its derivative by the token's log-probability, for the CPU and for CUDA.
// Neither torch nor CUDA is needed to include this file.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define GRPO_FUNCTION __host__ __device__ inline
#else
#define GRPO_FUNCTION inline
#endif

namespace lossgate_example {

// What a dtype is computed and added up in: float32 for half types, else the dtype itself.
template <typename T>
struct Compute {
  using type = float;
};
template <>
struct Compute<double> {
  using type = double;
};
template <typename T>
using compute_t = typename Compute<T>::type;

// What the sum of the token losses is divided by.
enum class Aggregation {
  completions,  // grpo: the length of the completion, and the completions
  tokens,       // bnpo, dapo: the tokens of the batch
  constant,     // dr_grpo: max_completion_length, and the completions
};

struct Options {
  Aggregation aggregation;
  double beta;
  double cap;      // of a ratio with advantage above 0: min(1 + epsilon_high, delta)
  double floor;    // of a ratio with advantage below 0: 1 - epsilon_low
  double ceiling;  // of the same: max(1 + epsilon_high, delta), or infinity without delta
  int64_t max_completion_length;
};

template <typename C>
struct TokenLoss {
  C loss;
  C slope;  // d loss / d logp
};

// -min(min(r, delta) A, clip(r, 1 - epsilon_low, 1 + epsilon_high) A) = -r' A, where r' is r between bounds that
// depend on the sign of A. The derivative is -r A where r' is r, bounds included, and 0 beyond.
template <typename C>
GRPO_FUNCTION TokenLoss<C> policy_term(C log_ratio, C advantage, const Options& options) {
  const C ratio = std::exp(log_ratio);
  const C inside = -ratio * advantage;
  if (advantage > 0) {
    const C cap = static_cast<C>(options.cap);
    if (ratio > cap) return {-cap * advantage, 0};
    return {inside, inside};
  }
  if (advantage < 0) {
    const C floor = static_cast<C>(options.floor);
    const C ceiling = static_cast<C>(options.ceiling);
    if (ratio < floor) return {-floor * advantage, 0};
    if (ratio > ceiling) return {-ceiling * advantage, 0};
    return {inside, inside};
  }
  // 0, even where the ratio is infinite; a NaN stays one.
  return {advantage, advantage};
}

// k3 = e^x - x - 1 with x = ref_logp - logp, and its derivative 1 - e^x. As e^x - 1 cancels near 0: expm1.
template <typename C>
GRPO_FUNCTION TokenLoss<C> kl_term(C logp, C ref_logp) {
  const C x = ref_logp - logp;
  const C grown = std::expm1(x);
  return {grown - x, -grown};
}

// The tensors of a batch, contiguous, (rows, columns). But for the mask, only unmasked positions are read.
template <typename T>
struct Batch {
  const T* logps;
  const T* old_logps;   // null on-policy
  const T* ref_logps;   // null where beta is 0
  const T* advantages;  // of a token: advantages[row * advantage_row + column * advantage_column]
  const bool* mask;
  int64_t rows;
  int64_t columns;
  int64_t advantage_row;
  int64_t advantage_column;
};

// The loss of an unmasked token, before it is weighed.
template <typename T>
GRPO_FUNCTION TokenLoss<compute_t<T>> token_loss(const Batch<T>& batch, int64_t row, int64_t column,
                                                 const Options& options) {
  using C = compute_t<T>;
  const int64_t at = row * batch.columns + column;
  const C logp = static_cast<C>(batch.logps[at]);
  // On-policy the old log-probability is the current one, held constant: the ratio is 1, and so is its slope.
  const C log_ratio = batch.old_logps ? logp - static_cast<C>(batch.old_logps[at]) : C(0);
  const int64_t advantage_at = row * batch.advantage_row + column * batch.advantage_column;
  const C advantage = static_cast<C>(batch.advantages[advantage_at]);
  TokenLoss<C> token = policy_term(log_ratio, advantage, options);
  if (batch.ref_logps) {
    const C beta = static_cast<C>(options.beta);
    const TokenLoss<C> kl = kl_term(logp, static_cast<C>(batch.ref_logps[at]));
    token.loss += beta * kl.loss;
    token.slope += beta * kl.slope;
  }
  return token;
}

// What each token of a completion of `length` tokens weighs in the loss. A completion without tokens counts in
// `rows`; where there is nothing to divide by, there is no token either.
GRPO_FUNCTION double token_weight(const Options& options, int64_t rows, int64_t length, int64_t tokens) {
  double divisor = 1;
  switch (options.aggregation) {
    case Aggregation::completions:
      divisor = static_cast<double>(rows) * static_cast<double>(length);
      break;
    case Aggregation::tokens:
      divisor = static_cast<double>(tokens);
      break;
    case Aggregation::constant:
      divisor = static_cast<double>(rows) * static_cast<double>(options.max_completion_length);
      break;
  }
  return divisor > 0 ? 1 / divisor : 0;
}

}  // namespace lossgate_example
