// A plain, obvious f64 version of every kernel: loops over indices, no tricks. Arguments are the kernel's inputs in
// order and what its outputs hold before; the result is its outputs.
#pragma once

#include <cmath>
#include <functional>

#include "kernels/optimizer.h"
#include "tensors.h"

namespace cleave::kernels::test::reference {

using Arrays = std::vector<Array>;

template <class F>
Array map(const Array& a, F&& f) {
    Array y(a.shape);
    for (std::int64_t i = 0; i < a.size(); ++i) y[i] = f(i);
    return y;
}

// y[m n] (+)= sum over k of a(m, k) b(k, n) (+ bias[n])
template <class FA, class FB>
void product(Array& y, std::int64_t m, std::int64_t n, std::int64_t k, bool accumulate, const Array* bias, FA&& a,
             FB&& b) {
    for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (std::int64_t l = 0; l < k; ++l) sum += a(i, l) * b(l, j);
            y[i * n + j] = (accumulate ? y[i * n + j] : 0) + sum + (bias ? (*bias)[j] : 0);
        }
}

inline Array gelu(const Array& x) {
    return map(x, [&](std::int64_t i) {
        const double v = x[i];
        return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    });
}

inline Array gelu_backward(const Array& dy, const Array& x) {
    return map(x, [&](std::int64_t i) {
        const double v = x[i];
        const double t = std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v));
        return dy[i] * (0.5 * (1 + t) + 0.5 * v * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * v * v));
    });
}

inline Arrays layer_norm(const Array& x, const Array& gain, const Array& bias, double epsilon, const Shape& rows) {
    const std::int64_t c = x.shape.back();
    Arrays out{Array(x.shape), Array(rows), Array(rows)};
    for (std::int64_t r = 0; r < rows.elements(); ++r) {
        double mean = 0, variance = 0;
        for (std::int64_t i = 0; i < c; ++i) mean += x[r * c + i] / static_cast<double>(c);
        for (std::int64_t i = 0; i < c; ++i) variance += std::pow(x[r * c + i] - mean, 2) / static_cast<double>(c);
        const double rstd = 1 / std::sqrt(variance + epsilon);
        for (std::int64_t i = 0; i < c; ++i) out[0][r * c + i] = (x[r * c + i] - mean) * rstd * gain[i] + bias[i];
        out[1][r] = mean;
        out[2][r] = rstd;
    }
    return out;
}

inline Arrays rms_norm(const Array& x, const Array& gain, double epsilon, const Shape& rows) {
    const std::int64_t c = x.shape.back();
    Arrays out{Array(x.shape), Array(rows)};
    for (std::int64_t r = 0; r < rows.elements(); ++r) {
        double square = 0;
        for (std::int64_t i = 0; i < c; ++i) square += x[r * c + i] * x[r * c + i] / static_cast<double>(c);
        out[1][r] = 1 / std::sqrt(square + epsilon);
        for (std::int64_t i = 0; i < c; ++i) out[0][r * c + i] = x[r * c + i] * out[1][r] * gain[i];
    }
    return out;
}

// mean is null for RmsNorm.
inline Array norm_backward_input(const Array& dy, const Array& x, const Array& gain, const Array* mean,
                                 const Array& rstd) {
    const std::int64_t c = x.shape.back();
    Array dx(x.shape);
    for (std::int64_t r = 0; r < rstd.size(); ++r) {
        auto g = [&](std::int64_t i) { return dy[r * c + i] * gain[i]; };
        auto h = [&](std::int64_t i) { return (x[r * c + i] - (mean ? (*mean)[r] : 0)) * rstd[r]; };
        double mean_g = 0, mean_gh = 0;
        for (std::int64_t i = 0; i < c; ++i) {
            if (mean) mean_g += g(i) / static_cast<double>(c);
            mean_gh += g(i) * h(i) / static_cast<double>(c);
        }
        for (std::int64_t i = 0; i < c; ++i) dx[r * c + i] = rstd[r] * (g(i) - mean_g - h(i) * mean_gh);
    }
    return dx;
}

inline void norm_backward_weight(const Array& dy, const Array& x, const Array* mean, const Array& rstd, Array& dgain,
                                 Array* dbias) {
    const std::int64_t c = x.shape.back();
    for (std::int64_t r = 0; r < rstd.size(); ++r)
        for (std::int64_t i = 0; i < c; ++i) {
            dgain[i] += dy[r * c + i] * (x[r * c + i] - (mean ? (*mean)[r] : 0)) * rstd[r];
            if (dbias) (*dbias)[i] += dy[r * c + i];
        }
}

inline Array rotary(const Array& x, double base, double sign, std::int64_t position0) {
    Array y(x.shape);
    const std::int64_t T = x.shape[1], H = x.shape[2], D = x.shape[3];
    for (std::int64_t row = 0; row < x.shape[0] * T * H; ++row)
        for (std::int64_t i = 0; i < D / 2; ++i) {
            const double t = static_cast<double>(row / H % T + position0);
            // Exponent, power, frequency and angle are f32 numbers (kernels/rotary_frequencies.h).
            const auto turn =
                1.0F / static_cast<float>(std::pow(base, static_cast<float>(2 * i) / static_cast<float>(D)));
            const double angle = sign * static_cast<double>(static_cast<float>(t) * turn);
            const double low = x[row * D + i], high = x[row * D + i + D / 2];
            y[row * D + i] = low * std::cos(angle) - high * std::sin(angle);
            y[row * D + i + D / 2] = high * std::cos(angle) + low * std::sin(angle);
        }
    return y;
}

// The matrix of probabilities in full: p[b h t s], and lse[b h t].
struct Probabilities {
    Array p, lse;
};

inline double at(const Array& x, std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
    return x[((b * x.shape[1] + t) * x.shape[2] + h) * x.shape[3] + d];
}

// Whether query t of sample b sees key s.
using Visible = std::function<bool(std::int64_t b, std::int64_t t, std::int64_t s)>;
// What dropout multiplies a probability by.
using Kept = std::function<double(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s)>;

inline Probabilities probabilities(const Array& q, const Array& k, const Visible& sees, double scale) {
    const std::int64_t B = q.shape[0], T = q.shape[1], H = q.shape[2], D = q.shape[3], S = k.shape[1], G = k.shape[2];
    Probabilities out{Array({B, H, T, S}), Array({B, H, T})};
    for (std::int64_t row = 0; row < B * H * T; ++row) {
        const std::int64_t b = row / (H * T), h = row / T % H, t = row % T;
        double sum = 0;
        for (std::int64_t s = 0; s < S; ++s) {
            if (!sees(b, t, s)) continue;
            double score = 0;
            for (std::int64_t d = 0; d < D; ++d) score += scale * at(q, b, t, h, d) * at(k, b, s, h / (H / G), d);
            out.p[row * S + s] = std::exp(score);
            sum += out.p[row * S + s];
        }
        for (std::int64_t s = 0; s < S; ++s) out.p[row * S + s] /= sum;
        out.lse[row] = std::log(sum);
    }
    return out;
}

inline Arrays attention(const Array& q, const Array& k, const Array& v, const Visible& sees, double scale,
                        const Kept& kept) {
    const std::int64_t B = q.shape[0], T = q.shape[1], H = q.shape[2], D = q.shape[3], S = k.shape[1], G = k.shape[2];
    const auto [p, lse] = probabilities(q, k, sees, scale);
    Array o(q.shape);
    for (std::int64_t i = 0; i < B * T * H; ++i) {
        const std::int64_t b = i / (T * H), t = i / H % T, h = i % H;
        for (std::int64_t s = 0; s < S; ++s) {
            if (!sees(b, t, s)) continue;
            const double weight = p[((b * H + h) * T + t) * S + s] * kept(b, h, t, s);
            for (std::int64_t d = 0; d < D; ++d) o[i * D + d] += weight * at(v, b, s, h / (H / G), d);
        }
    }
    return {o, lse};
}

// With exp(score - lse) from the lse that is given, as the kernel has it.
inline Arrays attention_backward(const Array& dout, const Array& q, const Array& k, const Array& v, const Array& o,
                                 const Array& lse, const Visible& sees, double scale, const Kept& kept) {
    const std::int64_t B = q.shape[0], T = q.shape[1], H = q.shape[2], D = q.shape[3], S = k.shape[1], G = k.shape[2];
    Arrays out{Array(q.shape), Array(k.shape), Array(v.shape)};
    for (std::int64_t row = 0; row < B * H * T; ++row) {
        const std::int64_t b = row / (H * T), h = row / T % H, t = row % T, g = h / (H / G);
        double delta = 0;
        for (std::int64_t d = 0; d < D; ++d) delta += at(dout, b, t, h, d) * at(o, b, t, h, d);
        for (std::int64_t s = 0; s < S; ++s) {
            if (!sees(b, t, s)) continue;
            double score = 0, dp = 0;
            for (std::int64_t d = 0; d < D; ++d) {
                score += scale * at(q, b, t, h, d) * at(k, b, s, g, d);
                dp += at(dout, b, t, h, d) * at(v, b, s, g, d);
            }
            const double p = std::exp(score - lse[row]);
            const double keep = kept(b, h, t, s);
            const double ds = p * (dp * keep - delta) * scale;
            for (std::int64_t d = 0; d < D; ++d) {
                const std::int64_t key = ((b * S + s) * G + g) * D + d;
                out[0][((b * T + t) * H + h) * D + d] += ds * at(k, b, s, g, d);
                out[1][key] += ds * at(q, b, t, h, d);
                out[2][key] += p * keep * at(dout, b, t, h, d);
            }
        }
    }
    return out;
}

inline Arrays cross_entropy(const Array& logits, const Array& labels, double scale, double ignore) {
    const std::int64_t v = logits.shape.back();
    Arrays out{Array(Shape{}), Array(labels.shape)};
    for (std::int64_t r = 0; r < labels.size(); ++r) {
        double sum = 0;
        for (std::int64_t i = 0; i < v; ++i) sum += std::exp(logits[r * v + i]);
        out[1][r] = std::log(sum);
        if (labels[r] != ignore)
            out[0][0] += scale * (out[1][r] - logits[r * v + static_cast<std::int64_t>(labels[r])]);
    }
    return out;
}

inline Array cross_entropy_backward(double dloss, const Array& logits, const Array& lse, const Array& labels,
                                    double scale, double ignore, double z_loss = 0) {
    const std::int64_t v = logits.shape.back();
    Array dx(logits.shape);
    for (std::int64_t r = 0; r < labels.size(); ++r)
        for (std::int64_t i = 0; i < v && labels[r] != ignore; ++i)
            dx[r * v + i] = dloss * scale *
                            ((1 + 2 * z_loss * lse[r]) * std::exp(logits[r * v + i] - lse[r]) -
                             (static_cast<double>(i) == labels[r]));
    return dx;
}

inline Arrays adamw(const AdamW& a, const Array& gradient, const Array& p, const Array& m, const Array& v) {
    Arrays out{p, m, v};
    const double t = static_cast<double>(a.step);
    for (std::int64_t i = 0; i < p.size(); ++i) {
        const double g = gradient[i] * a.gradient_scale;
        out[1][i] = a.beta1 * m[i] + (1 - a.beta1) * g;
        out[2][i] = a.beta2 * v[i] + (1 - a.beta2) * g * g;
        const double m_hat = out[1][i] / (1 - std::pow(a.beta1, t));
        const double v_hat = out[2][i] / (1 - std::pow(a.beta2, t));
        out[0][i] = p[i] - a.lr * a.weight_decay * p[i] - a.lr * m_hat / (std::sqrt(v_hat) + a.epsilon);
    }
    return out;
}

}  // namespace cleave::kernels::test::reference
