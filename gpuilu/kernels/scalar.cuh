// Real and complex arithmetic with the rounding written out: what is fused says so.
#pragma once

namespace gpuilu {

template <class R>
struct Complex {
    R re, im;
    __device__ Complex() = default;
    __device__ Complex(R real, R imag = R(0)) : re(real), im(imag) {}
    template <class S>
    __device__ explicit Complex(const Complex<S>& z) : re(R(z.re)), im(R(z.im)) {}
};

template <class V>
struct RealOf {
    using type = V;
};
template <class R>
struct RealOf<Complex<R>> {
    using type = R;
};
template <class V>
using Real = typename RealOf<V>::type;

// a * b and a - b, never contracted into one operation: the same bits as the loops on the CPU.
__device__ inline float mul_rn(float a, float b) {
    return __fmul_rn(a, b);
}
__device__ inline double mul_rn(double a, double b) {
    return __dmul_rn(a, b);
}
__device__ inline float sub_rn(float a, float b) {
    return __fsub_rn(a, b);
}
__device__ inline double sub_rn(double a, double b) {
    return __dsub_rn(a, b);
}

template <class V>
__device__ V minus_product_unfused(V s, V a, V b) {
    return sub_rn(s, mul_rn(a, b));
}
template <class R>
__device__ Complex<R> minus_product_unfused(Complex<R> s, Complex<R> a, Complex<R> b) {
    const R re = sub_rn(mul_rn(a.re, b.re), mul_rn(a.im, b.im));
    const R im = -sub_rn(-mul_rn(a.re, b.im), mul_rn(a.im, b.re));
    return {sub_rn(s.re, re), sub_rn(s.im, im)};
}

// s - a * b, fused: for substitution, where only the error bound counts.
__device__ inline float minus_product(float s, float a, float b) {
    return __fmaf_rn(-a, b, s);
}
__device__ inline double minus_product(double s, double a, double b) {
    return __fma_rn(-a, b, s);
}
template <class R>
__device__ Complex<R> minus_product(Complex<R> s, Complex<R> a, Complex<R> b) {
    const R re = minus_product(s.re, a.re, b.re);
    const R im = minus_product(s.im, a.re, b.im);
    return {minus_product(re, -a.im, b.im), minus_product(im, a.im, b.re)};
}

__device__ inline float plus(float a, float b) {
    return a + b;
}
__device__ inline double plus(double a, double b) {
    return a + b;
}
template <class R>
__device__ Complex<R> plus(Complex<R> a, Complex<R> b) {
    return {a.re + b.re, a.im + b.im};
}

__device__ inline float times(float a, float b) {
    return mul_rn(a, b);
}
__device__ inline double times(double a, double b) {
    return mul_rn(a, b);
}
template <class R>
__device__ Complex<R> times(Complex<R> a, Complex<R> b) {
    return {minus_product(mul_rn(a.re, b.re), a.im, b.im),
            minus_product(mul_rn(a.re, b.im), -a.im, b.re)};
}
template <class R>
__device__ Complex<R> times(Complex<R> a, R b) {
    return {a.re * b, a.im * b};
}

__device__ inline bool is_zero(float a) {
    return a == 0.0f;
}
__device__ inline bool is_zero(double a) {
    return a == 0.0;
}
template <class R>
__device__ bool is_zero(Complex<R> a) {
    return a.re == R(0) && a.im == R(0);
}

__device__ inline bool is_finite(float a) {
    return a - a == 0.0f;
}
__device__ inline bool is_finite(double a) {
    return a - a == 0.0;
}
template <class R>
__device__ bool is_finite(Complex<R> a) {
    return is_finite(a.re) && is_finite(a.im);
}

__device__ inline float magnitude(float a) {
    return fabsf(a);
}
__device__ inline double magnitude(double a) {
    return fabs(a);
}
__device__ inline float magnitude(Complex<float> a) {
    return hypotf(a.re, a.im);
}
__device__ inline double magnitude(Complex<double> a) {
    return hypot(a.re, a.im);
}

__device__ inline float conjugate(float a) {
    return a;
}
__device__ inline double conjugate(double a) {
    return a;
}
template <class R>
__device__ Complex<R> conjugate(Complex<R> a) {
    return {a.re, -a.im};
}

__device__ inline float over(float a, float b) {
    return __fdiv_rn(a, b);
}
__device__ inline double over(double a, double b) {
    return __ddiv_rn(a, b);
}
// Smith's division: no overflow in between where the quotient is representable.
template <class R>
__device__ Complex<R> over(Complex<R> a, Complex<R> b) {
    if (magnitude(b.re) >= magnitude(b.im)) {
        const R ratio = over(b.im, b.re), scale = b.re + b.im * ratio;
        return {over(a.re + a.im * ratio, scale), over(a.im - a.re * ratio, scale)};
    }
    const R ratio = over(b.re, b.im), scale = b.re * ratio + b.im;
    return {over(a.re * ratio + a.im, scale), over(a.im * ratio - a.re, scale)};
}
template <class R>
__device__ Complex<R> over(Complex<R> a, R b) {
    return {over(a.re, b), over(a.im, b)};
}

// What can be added to any value, zeros of both signs too, and leaves it as it is.
template <class V>
__device__ V minus_zero() {
    const Real<V> zero = Real<V>(-0.0);
    if constexpr (sizeof(V) == sizeof(zero))
        return zero;
    else
        return {zero, zero};
}

// Exchange of a value between the lanes of a warp.
__device__ inline float shuffle_xor(unsigned mask, float v, int lanes) {
    return __shfl_xor_sync(mask, v, lanes);
}
__device__ inline double shuffle_xor(unsigned mask, double v, int lanes) {
    return __shfl_xor_sync(mask, v, lanes);
}
template <class R>
__device__ Complex<R> shuffle_xor(unsigned mask, Complex<R> v, int lanes) {
    return {__shfl_xor_sync(mask, v.re, lanes), __shfl_xor_sync(mask, v.im, lanes)};
}

// The value of a lane among `width` neighbours.
__device__ inline float shuffle(unsigned mask, float v, int lane, int width) {
    return __shfl_sync(mask, v, lane, width);
}
__device__ inline double shuffle(unsigned mask, double v, int lane, int width) {
    return __shfl_sync(mask, v, lane, width);
}
template <class R>
__device__ Complex<R> shuffle(unsigned mask, Complex<R> v, int lane, int width) {
    return {__shfl_sync(mask, v.re, lane, width), __shfl_sync(mask, v.im, lane, width)};
}

} // namespace gpuilu
