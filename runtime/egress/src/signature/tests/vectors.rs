//! Strings and signatures that other programs made.

use super::keys;
use crate::http::Algorithm;

/// String to sign, signature in Base64, in hex, and as it stands in a URL; HMAC-SHA1.
pub(super) const CLOUDSTACK_SECRET: &str = "SecretExample-9876543210_XyZ";

pub(super) const CLOUDSTACK: [(&str, &str, &str, &str); 6] = [
    (
        "apikey=akidexample-0123456789_abcdef&command=listvirtualmachines&expires=2031-02-03t04%3a05%3a06z&listall=true&name=worker%2001&projectid=11111111-2222-3333-4444-555555555555&response=json&signatureversion=3",
        "gRnD9fTcKWG16Ipg/urQZcsob3c=",
        "8119c3f5f4dc2961b5e88a60feead065cb286f77",
        "gRnD9fTcKWG16Ipg%2FurQZcsob3c%3D",
    ),
    (
        "algorithm=roundrobin&apikey=akidexample-0123456789_abcdef&cidrlist=10.0.0.0%2f8%2c192.168.1.0%2f24&command=createloadbalancerrule&expires=2031-02-03t04%3a05%3a06z&name=a1b2c3d4e5f60718293a4b5c6d7e8f90-tcp-443&networkid=0c1d2e3f-0000-4000-8000-00000000ab02&openfirewall=false&privateport=30443&protocol=tcp&publicipid=0c1d2e3f-0000-4000-8000-00000000ab01&publicport=443&response=json&signatureversion=3",
        "QlRuixDnI1LpoWt56qTs+JPNFmo=",
        "42546e8b10e72352e9a16b79eaa4ecf893cd166a",
        "QlRuixDnI1LpoWt56qTs%2BJPNFmo%3D",
    ),
    (
        "apikey=akidexample-0123456789_abcdef&command=createlbstickinesspolicy&expires=2031-02-03t04%3a05%3a06z&lbruleid=0c1d2e3f-0000-4000-8000-00000000ab03&methodname=lbcookie&name=sticky%20*%c3%bc%2b%2f%3d%26%7e%20v1&param[0].name=cookie-name&param[0].value=srv&param[10].name=mode&param[10].value=insert&param[2].name=nocache&param[2].value=true&response=json&signatureversion=3",
        "0rJVuV324THB3Lk0dUKi6K57UeE=",
        "d2b255b95df6e131c1dcb9347542a2e8ae7b51e1",
        "0rJVuV324THB3Lk0dUKi6K57UeE%3D",
    ),
    (
        "apikey=akidexample-0123456789_abcdef&command=listcapabilities&expires=2031-02-03t04%3a05%3a06%2b0000&response=json&signatureversion=3",
        "t9kKtSMKMcbn3rzqsXWKQrQ+euQ=",
        "b7d90ab5230a31c6e7debceab1758a42b43e7ae4",
        "t9kKtSMKMcbn3rzqsXWKQrQ%2BeuQ%3D",
    ),
    (
        "apikey=akidexample-0123456789_abcdef&command=queryasyncjobresult&jobid=0c1d2e3f-0000-4000-8000-00000000ab04&response=json",
        "9jTxjdaJlpgpsJosQYAiUAIQBpY=",
        "f634f18dd689969829b09a2c4180225002100696",
        "9jTxjdaJlpgpsJosQYAiUAIQBpY%3D",
    ),
    (
        "apikey=akidexample-0123456789_abcdef&command=queryasyncjobresult&expires=2020-01-01t00%3a00%3a00z&jobid=0c1d2e3f-0000-4000-8000-00000000ab04&response=json&signatureversion=3",
        "i4aoEgxy0sYv1bkHB4duDXysRic=",
        "8b86a8120c72d2c62fd5b90707876e0d7cac4627",
        "i4aoEgxy0sYv1bkHB4duDXysRic%3D",
    ),
];

/// Name, key, algorithm, string to sign, signature in Base64.
pub(super) const TRITON: [(&str, &str, Algorithm, &str, &str); 8] = [
    (
        "V1",
        keys::RSA_PKCS1,
        Algorithm::RsaSha256,
        "date: Tue, 05 May 2026 12:00:00 GMT",
        "HLQjZ0rBNw32aqIn3NkUYBF82i+FYnypObPADPFjzw+FGtjos4tbvHy7Vo7nIKox0YfNluHZeT+35C3EY7ca28BCbPpwL/cRDDaYHZNjuEVcd8tyGkfV8tO2XL5ZgZI5wt64BdYh2/FR8ydeJ3nvKLdO3PDJfj8MYcYpPsZESHtx//ssgjZcVf7ZF4RN7mKdehYUWvzznYBJhQkhV+PV4McxakSy7c0AN3/c5X6cnGm/vhxozhMeH/Tq1EjmvtfsAmjuZ6JxSDG5eqC4igXGMA0BMQiCAN0bWmfQLuiIAOIdUaKUDna3GJc6YsdlEg+MInLleeGhENw3IS+woQnx5Q==",
    ),
    (
        "V2",
        keys::RSA_PKCS1,
        Algorithm::RsaSha256,
        "(request-target): get /demo/machines?limit=1000&offset=0\ndate: Tue, 05 May 2026 12:00:00 GMT",
        "ZXuiVez4wDSJ93oCUAVAJJaThpRwcnBScdH9iu70du/wY8qMKDRknAgRQ6BnVPCkXm4esvjrbPNt0lKVLLkPhhp8OzsBwjCg/qPRobZcUXGpqkCK49HPhD5Z6OnF9dGW37fogxrVS8lz7W5u+IwPGOifh36hNahzIhcdcbih9tb9ZzN4Nu/eEMD37aVX5YAposELnan2A3zeXhMleO++ddmXXkAbFshjV3YJtW7IxqsTKdDQ56Yr0F4y3Vf+xCBVvc958e2T4Cx2sTAsYCFjmv05EYKjdTRUkHd+gEIb/qeuJJ98ADkfMi3yed+BGmrqDIC2ZGK4hiquhvEwmrZ/pA==",
    ),
    (
        "V3",
        keys::RSA_PKCS1,
        Algorithm::RsaSha256,
        "(request-target): post /demo/machines/b6979942-7d5d-4fe6-a2ec-b812e950625a/tags\ndate: Tue, 05 May 2026 12:00:00 GMT",
        "CCATHsgC8kLg7IW//CHEXOZxOT3qntA1x6PKoAMTx7a8aKY7ow2ea6tbYnx22hR57R/SNLELGqsrRpTs/kRhtcAOUEogJp1WMXsX3C6k0v0N/uOY5Hih3o4Pds7J3IIkVURnVzy2ZFr0q/lWMk9DMtm2bQPRvpsr3hr3E3oBLe5N1xx9my9H5f2xx6YqoaTYw+HUqp9OT2egyDwrfpzHyY6WIPMsppKkvd7CxkzqhKpzxGnmYL29oCymEi8rdd4ox2XF4EFmRsGi3nj0Bn2FjMh4XHDhrgBui6x6njBrWT65M4SI1cJFUaOzfm+J9s7XhFkEEXbirXMrZdmTAu8vYA==",
    ),
    (
        "V5",
        keys::RSA_PKCS1,
        Algorithm::RsaSha512,
        "date: Tue, 05 May 2026 12:00:00 GMT",
        "H1QTHBGwYAfkIW52uVS3fCZ63A8LHilwSMgyRF+Qbk3KKt+MjN6gw5p240UTg5Ey/JxCw717d6SFkFx1RDlSEiCacBw0EOJd9SiQbAOklK8o0mHOm49MuZVMo4L8OvCk4Loggd2XJfYwjBeLSdWP9NDOhZv9g6xlEOgVh0YMbEKGrA/zfbikRiryy1MKyCqT377ykB9HTEqa4lM6KFsv0pQjdC0Fchs8ioDM3nVuw0WVtBs5zwKbmwHlZ6HweLBdhgmgKhY9V5CTJfh9zo426oUNdPHFh/pih4xgbzXpEnn+H1PBoSpG03YCCMIYX9L6Af+T/uO6T0PPMqZEDa/G1Q==",
    ),
    (
        "V6",
        keys::RSA_PKCS1,
        Algorithm::RsaSha256,
        "(request-target): get /demo/machines?as-role=ops,deploy\ndate: Tue, 05 May 2026 12:00:00 GMT",
        "INH70IJbTsePgSxhykgSHV6Selu0dAaEsAllNUv79sZytt8mOOgohcg/u8WGvjWGC9CxO0tR1Yny2xbu8DS4mQhUhT/h61ZwADMCBMqz2uRPorN3iA0HB2n2JM6Fbhb4iB983yTehpIzBqSRWPPfAEcBwGS6W0AIuIqLU0VNuZ1JTER6jhbehB4v6Kfz7w+TRvOFilSkn1926CqSGgNsq4toMq7xdcnBeSuoLD5wYXIvxKWHESkaqfEzzoDIfEgLf01M5Cr5xdZjrZkaAV7zunRPHNORK7OZqbGAqvXQam6yWauo8GqZBeS51LZlyHzHBmWzU0eJOjXNVhvkq89xfw==",
    ),
    (
        "V7",
        keys::RSA_PKCS1,
        Algorithm::RsaSha256,
        "Tue, 05 May 2026 12:00:00 GMT",
        "S6fdpbruU9ekO+qe8Wcx3IXSBrxdc08ljDdFkY0RLUNDR39Ydr3/ehsx+soTJsY84WSUa+MLhj0uXSh9MCjk5u7Y06Z1rMvuxXNIjYOmgjGMo7yz9wTolvqhKbaTFthhxzfqHjhiMYxgu1Pz6drT1vPpIEeSvl75lTCrlkbnSKkt2QchDFEh156ztwBK5QBCtYoXwZvxf1+tJMJOR7pPkyTONGHw79z7oONOX0+/PVs2oWhghsJ+6Ji+WBXU/6e5RWXpgPBKwCL0wn6a1sDpgeTsiYRRCtEL0D3TbSXsU58m66owBXPTHz/0Zl2HQ79OW9w/wObJMptcG9DMEIO3HA==",
    ),
    (
        "V9",
        keys::ED25519_PKCS8_V1,
        Algorithm::Ed25519,
        "date: Tue, 05 May 2026 12:00:00 GMT",
        "go+zpDiQzrfkWaPP6SgQRywBYjEIASqsX+lWutlvA0EEa2BqksbwFkfFb4/3C24a0t32IjcMk6LtLwdEO+lqAg==",
    ),
    (
        "V10",
        keys::RSA_PKCS1,
        Algorithm::RsaSha256,
        "date: Tue, 05 May 2026 12:00:00 GMT\n(request-target): get /demo/machines\nhost: cloudapi.dc1.example.com",
        "HF+ycC1hQTV7KEPPBJcnm1ccWMZ1t9PQJRwGPo2+3IqBhrYag28cMLz8HO5mlSQI56SMF7bNHb91WiuD9fi8QyEPw2KQAPIGhGRR8EdxshgBoL1aYCiQ5H5TKYLvzAIE5FKRcelNEiQKqNY1GC0kpkFH1EWswHXWCisMPSTF/4WK61RPc8wdpalGDQVoEZGMMmcfOkimpC84L/NfMThzgaLE75kw2+py1yCpQbNb9YVVuwQmE6BU6V/izuGNa2BfDPPyVwjaHAWpmDM9oT0xC6eS3aokcCqScktqZR0xs/ieOiN80eDk6+ZyeTEbVJgSXEemQ4rlfOVG00eiojhRDQ==",
    ),
];

pub(super) const TRITON_V8: (&str, &str) = (
    "date: Tue, 05 May 2026 12:00:00 GMT",
    "MEYCIQCRfSMsbWfl0m2/0BMUIF+AYSUImX5GpI9XEYQ7QWxiQwIhAIh9Xsln3uS+FsbhCO6DwJ8I+Q8286M0CXNrJ6is3TuF",
);
